#pragma once

#include <map>
#include <string>
#include <vector>

#include "runner/shared/disk/digest.h"
#include "tests/support/http_server.h"

/// A server that answers like the Hugging Face Hub about one model, org/tower: it serves small
/// files itself, through a redirect to another of its paths, and redirects to another server for
/// the weights.
class HubServer {
 public:
  std::string url() const { return hub_.url(); }
  const std::string& commit() const { return commit_; }
  const std::string& config() const { return files_.at("config.json"); }
  const std::string& weights() const { return files_.at("model.safetensors"); }
  std::string config_blob() const { return git_blob(config()); }
  const std::string& weights_blob() const { return weights_blob_; }
  std::vector<SeenRequest> seen() const { return hub_.seen(); }
  std::vector<SeenRequest> seen_elsewhere() const { return elsewhere_.seen(); }
  void damage_weights() { files_["model.safetensors"].back() ^= 1; }
  /// Adds a file to the model, or replaces the one with the same name.
  void serve(const std::string& name, const std::string& bytes) {
    files_[name] = bytes;
    weights_blob_ = runner::sha256(weights());
  }
  /// Replaces the ETag of every file.
  void set_etag(const std::string& etag) { etag_ = etag; }

  static std::string git_blob(const std::string& bytes) {
    runner::Digest digest(runner::DigestKind::kSha1);
    digest.update("blob " + std::to_string(bytes.size()) + std::string(1, '\0') + bytes);
    return digest.finish();
  }

 private:
  ServedReply about_model(const std::string& target) const {
    if (target.starts_with("/api/models/org/secret/")) return {.status = 401};
    if (!target.starts_with("/api/models/org/tower/revision/")) return {.status = 404};
    std::string siblings;
    for (const auto& [name, bytes] : files_)
      siblings += (siblings.empty() ? "" : ", ") + ("{\"rfilename\": \"" + name + "\"}");
    return {.body = "{\"sha\": \"" + commit_ + "\", \"siblings\": [" + siblings + "]}"};
  }

  ServedReply answer(const SeenRequest& request) const {
    const std::string resolve = "/org/tower/resolve/" + commit_ + "/",
                      cache = "/api/resolve-cache/";
    if (request.target.starts_with(cache)) {
      const std::string& bytes = files_.at(request.target.substr(cache.size()));
      return served(request, bytes, etag_.empty() ? '"' + git_blob(bytes) + '"' : etag_);
    }
    if (!request.target.starts_with(resolve)) return about_model(request.target);
    const std::string name = request.target.substr(resolve.size());
    if (!files_.contains(name)) return {.status = 404};
    if (!name.ends_with(".safetensors"))
      return {.status = 307, .headers = {{"Location", cache + name}}};
    return {.status = 302,
            .headers = {{"Location", elsewhere_.url("/" + name + "?signature=secret")},
                        {"X-Linked-ETag", '"' + weights_blob_ + '"'},
                        {"X-Linked-Size", std::to_string(weights().size())}}};
  }

  const std::string commit_ = "0123456789abcdef0123456789abcdef01234567";
  std::map<std::string, std::string> files_ = {{"config.json", "{\"hidden_size\": 4}"},
                                               {"model.safetensors", std::string(50'000, 'w')},
                                               {"pytorch_model.bin", "pickle"},
                                               {"README.md", "read"},
                                               {"sub/notes.txt", "notes"}};
  std::string weights_blob_ = runner::sha256(files_.at("model.safetensors"));
  std::string etag_;
  HttpServer elsewhere_{[this](const SeenRequest& request) {
    return served(request, files_.at(request.target.substr(1, request.target.find('?') - 1)));
  }};
  HttpServer hub_{[this](const SeenRequest& request) { return answer(request); }};
};
