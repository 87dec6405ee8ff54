#include "stages/fetch/hub.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "runner/shared/disk/folder_lock.h"
#include "runner/shared/disk/new_file.h"
#include "runner/shared/http/http.h"
#include "runner/shared/stage/stage.h"
#include "runner/shared/text/join.h"
#include "runner/shared/text/percent_encoding.h"
#include "runner/shared/text/utf8.h"
#include "runner/shared/value/parse_json.h"
#include "runner/shared/weights/weights_file.h"
#include "stages/fetch/unpack.h"

namespace stages {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using runner::ErrorCode;
using runner::StageError;

constexpr std::string_view kHub = "https://huggingface.co";
constexpr std::size_t kLongestAnswer = 32 << 20;
constexpr const char* kTokenHelp = "a private or gated model needs your token in HF_TOKEN";

/// Returns the value of an environment variable without surrounding whitespace; empty if it is not
/// set.
std::string variable(const char* name) {
  const char* value = std::getenv(name);
  const std::string_view text = value ? value : "";
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  return begin == text.npos
             ? ""
             : std::string(text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1));
}

bool is_hex(std::string_view text, std::size_t digits) {
  return text.size() == digits && text.find_first_not_of("0123456789abcdef") == text.npos;
}

[[noreturn]] void cannot_create_cache(const fs::path& path, int error) {
  throw StageError(
      error == ENOSPC || error == EDQUOT ? ErrorCode::kDiskFull : ErrorCode::kCannotCreate,
      "cannot create '" + path.string() + "': " + std::generic_category().message(error))
      .with_help("free up space, or choose another location with HF_HUB_CACHE");
}

void make_cache_folders(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) cannot_create_cache(path, error.value());
}

/// A small response, with its complete body.
struct Response {
  runner::HttpReply reply;
  std::string body;
};

class HubFetching {
 public:
  HubFetching(const HubRequest& request, const FetchCallbacks& callbacks, const Patience& patience,
              runner::Storage& storage)
      : request_(request),
        callbacks_(callbacks),
        patience_(patience),
        storage_(storage),
        endpoint_(endpoint_of(request)),
        token_(variable("HF_TOKEN")) {
    std::string name = "models--" + request.repository;
    if (safe_parts(request.repository).empty() || safe_parts(request.revision).empty()) {
      throw StageError(ErrorCode::kUsage, "'" + request.repository + "@" + request.revision +
                                              "' is not the name of a model");
    }
    if (const std::size_t slash = name.find('/'); slash != name.npos) name.replace(slash, 1, "--");
    home_ = (request.cache.empty() ? runner::hub_cache() : request.cache) / name;
  }

  HubSnapshot run() {
    if (const std::string offline = variable("HF_HUB_OFFLINE");
        !offline.empty() && offline != "0") {
      throw StageError(
          ErrorCode::kDownloadFailed,
          "HF_HUB_OFFLINE=" + offline + " does not allow fetching '" + request_.repository + "'")
          .with_help("unset HF_HUB_OFFLINE to download");
    }
    ask_for_commit();
    make_cache_folders(home_);
    const runner::FolderLock lock = take_lock();
    for (const char* below : {"blobs", "refs", "snapshots"}) make_cache_folders(home_ / below);
    HubSnapshot snapshot{commit_, home_ / "snapshots" / commit_, {}};
    // File names in the snapshot, and the blobs to which they point.
    std::vector<std::pair<std::string, std::string>> links;
    for (const std::string& name : names_) {
      HubFile file{name};
      const std::string blob = fetch(file, snapshot.received);
      links.emplace_back(name, blob);
      snapshot.files.push_back(std::move(file));
    }
    link(snapshot.folder, links);
    if (request_.revision != commit_) write_ref();
    return snapshot;
  }

 private:
  static std::string endpoint_of(const HubRequest& request) {
    std::string endpoint = request.endpoint.empty() ? variable("HF_ENDPOINT") : request.endpoint;
    if (endpoint.empty()) endpoint = kHub;
    while (endpoint.ends_with('/')) endpoint.pop_back();
    return endpoint;
  }

  [[noreturn]] void not_understood(const std::string& what) const {
    throw StageError(
        ErrorCode::kDownloadFailed,
        runner::shown_url(endpoint_) + " does not respond like the Hugging Face Hub: " + what)
        .with_help("check HF_ENDPOINT");
  }

  /// Sends a request with a small response. Retries transient failures, like download().
  Response ask(const runner::HttpRequest& request, const std::string& about) const {
    double wait = patience_.first_wait;
    for (int failures = 1;; ++failures, wait *= 2) {
      std::string why;
      try {
        Response answer;
        answer.reply = runner::send(
            request, {patience_.connect_seconds, patience_.stall_seconds, callbacks_.canceled},
            [&](const runner::HttpReply&, std::string_view bytes) {
              if (answer.body.size() + bytes.size() > kLongestAnswer)
                not_understood("the response is too long");
              answer.body += bytes;
            });
        const int status = answer.reply.status;
        if (status < 400) return answer;
        why = runner::shown_url(request.url) + ": the server responded with " +
              std::to_string(status);
        if (status == 401 || status == 403) {
          throw StageError(ErrorCode::kNotPublished,
                           "cannot fetch " + about + ": " + why + ", not allowed")
              .with_help(std::string("check the name; ") + kTokenHelp);
        }
        if (status == 404 || status == 410) {
          throw StageError(ErrorCode::kNotPublished,
                           "cannot fetch " + about + ": " + why + ", not found")
              .with_help("check the name and the revision");
        }
        if (!is_passing_status(status))
          throw StageError(ErrorCode::kDownloadFailed, "cannot fetch " + about + ": " + why);
      } catch (const runner::HttpError& error) {
        why = error.what();
        if (!error.is_passing)
          throw StageError(ErrorCode::kDownloadFailed, "cannot fetch " + about + ": " + why);
      }
      if (failures >= patience_.attempts) {
        throw StageError(ErrorCode::kDownloadFailed, "cannot fetch " + about + ": " + why)
            .with_help("check the network, and https_proxy if a proxy is needed");
      }
      wait_out(why, wait, patience_, callbacks_);
    }
  }

  /// Resolves the revision to a commit, and selects the wanted files.
  void ask_for_commit() {
    const std::string about = "'" + request_.repository + "'";
    const Response answer = ask(
        {.url = endpoint_ + "/api/models/" + runner::percent_encoded(request_.repository, true) +
                "/revision/" + runner::percent_encoded(request_.revision, false),
         .token = token_},
        about);
    const json model = runner::parse_json<json>(answer.body);
    if (!model.is_object() || !model.contains("sha") || !model["sha"].is_string())
      not_understood("no commit");
    commit_ = model["sha"];
    if (!is_hex(commit_, 40)) not_understood("an invalid commit");
    std::vector<std::string> all;
    if (model.contains("siblings") && model["siblings"].is_array()) {
      for (const json& sibling : model["siblings"]) {
        if (sibling.is_object() && sibling.contains("rfilename") &&
            sibling["rfilename"].is_string())
          all.push_back(sibling["rfilename"]);
      }
    }
    names_ = request_.files.empty() ? wanted_files(all) : request_.files;
    for (const std::string& name : names_) {
      if (std::ranges::count(all, name) == 0) missing("'" + name + "'", all);
      if (safe_parts(name).empty()) not_understood("a file named '" + name + "'");
    }
    if (names_.empty()) missing("weights", all);
  }

  [[noreturn]] void missing(const std::string& what, const std::vector<std::string>& all) const {
    constexpr std::size_t kShown = 20;
    throw StageError(ErrorCode::kNotPublished, "'" + request_.repository + "' has no " + what)
        .with_help(all.empty() ? "it has no files" : "it has " + runner::listed(all, kShown));
  }

  runner::FolderLock take_lock() const {
    auto lock = runner::FolderLock::take(
        home_, {ErrorCode::kDownloadFailed,
                {},
                "",
                "another process{} is fetching '" + request_.repository + "'",
                "wait until it has finished"});
    if (lock) return std::move(*lock);
    const runner::Diagnostic& why = lock.errors().front();
    throw StageError(why.code, why.message).with_help(why.help);
  }

  /// Downloads the file's blob unless it exists. Returns the blob's name.
  std::string fetch(HubFile& file, std::int64_t& received) {
    const std::string url = endpoint_ + "/" + runner::percent_encoded(request_.repository, true) +
                            "/resolve/" + commit_ + "/" + runner::percent_encoded(file.name, true);
    // The Hub itself returns the file's ETag and size; the file may be on another host.
    const runner::HttpHeaders headers =
        ask({.url = url, .wants_body = false, .token = token_, .leaves_host = false},
            "'" + file.name + "'")
            .reply.first_seen;
    const auto header = [&](std::string_view linked, std::string_view plain) {
      const auto found = headers.find(linked);
      if (found != headers.end()) return found->second;
      const auto other = headers.find(plain);
      return other == headers.end() ? std::string() : other->second;
    };
    const std::string blob = blob_name(header("x-linked-etag", "etag"));
    if (blob.empty()) not_understood("'" + file.name + "' has no ETag");
    const fs::path path = home_ / "blobs" / blob;
    std::optional<Checksum> checksum;
    if (is_hex(blob, 64)) checksum = Checksum{runner::DigestKind::kSha256, blob};
    if (is_hex(blob, 40))
      checksum = Checksum{runner::DigestKind::kSha1, blob, /*is_git_blob=*/true};
    std::error_code error;
    file.was_there = fs::is_regular_file(path, error);
    if (!file.was_there) {
      received += download({.url = url,
                            .file = path,
                            .name = file.name,
                            .checksum = checksum,
                            .bytes = length_from(header("x-linked-size", "")),
                            .token = token_,
                            .token_help = kTokenHelp},
                           callbacks_, patience_, storage_);
    }
    file.bytes = static_cast<std::int64_t>(fs::file_size(path));
    return blob;
  }

  /// Parses a length; returns 0 if there is none.
  static std::int64_t length_from(const std::string& text) {
    const bool is_number =
        !text.empty() && text.size() <= 18 && std::ranges::all_of(text, runner::is_digit);
    return is_number ? std::stoll(text) : 0;
  }

  /// Returns the ETag as a file name, without quotes or the prefix of weak ETags; empty if it is
  /// not a valid name.
  static std::string blob_name(std::string tag) {
    if (tag.starts_with("W/")) tag.erase(0, 2);
    std::erase(tag, '"');
    const bool is_name = !tag.empty() && tag.size() <= 128 && tag[0] != '.' &&
                         std::ranges::all_of(tag, [](unsigned char c) {
                           return std::isalnum(c) || c == '-' || c == '_' || c == '.';
                         });
    return is_name ? tag : "";
  }

  /// Creates the links in the snapshot. A new snapshot appears with all its links at once.
  void link(const fs::path& snapshot,
            const std::vector<std::pair<std::string, std::string>>& links) {
    std::error_code error;
    std::optional<runner::NewFolder> fresh_snapshot;
    if (!fs::exists(snapshot, error)) {
      const fs::path draft = home_ / "snapshots" / ("." + commit_ + ".part");
      fs::remove_all(draft, error);  // left over from a killed process
      fresh_snapshot.emplace(snapshot, draft, storage_);
    }
    const fs::path folder = fresh_snapshot ? fresh_snapshot->draft() : snapshot;
    for (const auto& [name, blob] : links) {
      const fs::path path = folder / name;
      make_cache_folders(path.parent_path());
      fs::path target = "../..";
      for (auto parts = safe_parts(name).size(); parts > 1; --parts) target /= "..";
      target = target / "blobs" / blob;
      if (fs::read_symlink(path, error) == target && !error) continue;
      const fs::path fresh = path.string() + ".part";
      storage_.remove(fresh);
      if (::symlink(target.c_str(), fresh.c_str()) != 0) cannot_create_cache(path, errno);
      if (storage_.rename(fresh, path) != 0) cannot_create_cache(path, errno);
      if (!fresh_snapshot) runner::sync_folder(path.parent_path(), storage_);
    }
    if (fresh_snapshot) fresh_snapshot->publish();
  }

  void write_ref() {
    const fs::path ref = home_ / "refs" / request_.revision;
    make_cache_folders(ref.parent_path());
    runner::write_atomically(ref, commit_, storage_);
  }

  const HubRequest& request_;
  const FetchCallbacks& callbacks_;
  const Patience& patience_;
  runner::Storage& storage_;
  const std::string endpoint_, token_;
  fs::path home_;  // the model's folder in the cache
  std::string commit_;
  std::vector<std::string> names_;
};

}  // namespace

HubSnapshot fetch_hub(const HubRequest& request, const FetchCallbacks& callbacks,
                      const Patience& patience, runner::Storage& storage) {
  try {
    return HubFetching(request, callbacks, patience, storage).run();
  } catch (const runner::WriteError& error) {  // replaces the error's advice, which is about runs
    throw StageError(error.code, error.what())
        .with_help("free up space, or choose another location with HF_HUB_CACHE");
  }
}

std::vector<std::string> wanted_files(const std::vector<std::string>& all) {
  std::vector<std::string> wanted;
  const auto take = [&](const auto& is_wanted) {
    const std::size_t before = wanted.size();
    for (const std::string& name : all) {
      if (name.find('/') == name.npos && is_wanted(name)) wanted.push_back(name);
    }
    return wanted.size() > before;
  };
  const auto is_weights = [](std::string_view name, std::string_view stem,
                             std::string_view ending) {
    return name == std::string(stem) + std::string(ending) ||
           name == std::string(stem) + std::string(ending) + ".index.json" ||
           (name.starts_with(std::string(stem) + "-") && name.ends_with(ending) &&
            name.find("-of-") != name.npos);
  };
  const auto named = [&](std::string_view stem, std::string_view ending) {
    return [=](std::string_view name) { return is_weights(name, stem, ending); };
  };
  take([](std::string_view name) {
    return name == "config.json" || name == "preprocessor_config.json" ||
           name == "adapter_config.json" || name == "merges.txt" || name == "vocab.json";
  });
  const bool has_adapter =
      take(named("adapter_model", ".safetensors")) || take(named("adapter_model", ".bin"));
  const bool has_weights = take(named("model", ".safetensors")) ||
                           (!has_adapter && take([](std::string_view name) {
                             return name.ends_with(".safetensors");
                           })) ||
                           take(named("pytorch_model", ".bin"));
  if (!has_adapter && !has_weights) return {};
  return wanted;
}

}  // namespace stages
