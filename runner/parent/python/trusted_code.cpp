#include "runner/parent/python/trusted_code.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <system_error>
#include <utility>

#include <nlohmann/json.hpp>

#include "runner/shared/disk/digest.h"
#include "runner/shared/disk/file_digests.h"
#include "runner/shared/disk/new_file.h"
#include "runner/shared/value/json_fields.h"
#include "runner/shared/value/parse_json.h"

namespace runner {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::array<const char*, 3> kShippedModules = {"timm", "torchvision", "transformers"};
constexpr std::size_t kLargestCode = std::size_t{64} << 20;
constexpr std::size_t kLargestList = std::size_t{64} << 20;

/// While this object exists, new files and folders are accessible only to this user.
class OwnFilesOnly {
 public:
  OwnFilesOnly() : before_(umask(077)) {}
  ~OwnFilesOnly() { umask(before_); }
  OwnFilesOnly(const OwnFilesOnly&) = delete;
  OwnFilesOnly& operator=(const OwnFilesOnly&) = delete;

 private:
  const mode_t before_;
};

bool is_digest(const std::string& text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == text.npos;
}

Diagnostic damaged_list(const fs::path& file, const std::string& why) {
  return {ErrorCode::kUntrustedCode,
          {},
          "",
          "the list of trusted code '" + file.string() + "' is damaged: " + why,
          "remove the list and trust your code again; until then, no code is trusted"};
}

bool lies_below(const std::string& path, const std::string& folder) {
  return path.starts_with(folder.ends_with('/') ? folder : folder + "/");
}

}  // namespace

TrustedCode::TrustedCode(fs::path file) : file_(std::move(file)) {
  for (const char* name : kShippedModules) modules_[name] = true;
}

Result<TrustedCode> TrustedCode::read(fs::path file) {
  TrustedCode code(file);
  std::error_code error;
  const fs::file_status status = fs::status(file, error);
  if (file.empty() || status.type() == fs::file_type::not_found) return code;
  const auto text = real_file_system().read(file, kLargestList);
  if (!text) return damaged_list(file, "it cannot be read");
  const Json json = parse_json<Json>(*text);
  if (json.is_discarded()) return damaged_list(file, "it is not JSON");
  try {
    const JsonFields<Json> fields(json, "it");
    if (fields.integer("schema") != 1)
      return damaged_list(file, "it was written by a different version");
    const Json &files = fields.object("files"), &modules = fields.object("modules");
    const JsonFields<Json> digests(files, "'files'"), names(modules, "'modules'");
    for (const auto& [path, digest] : files.items()) {
      if (!is_digest(digests.text(path))) digests.fail(path, "a SHA-256");
      code.files_[path] = digests.text(path);
    }
    for (const auto& [name, is_trusted] : modules.items()) code.modules_[name] = names.flag(name);
  } catch (const std::runtime_error& wrong) {
    return damaged_list(file, wrong.what());
  }
  return code;
}

TrustedCode::State TrustedCode::state(const fs::path& real, std::string_view sha256) const {
  const auto found = files_.find(real.string());
  if (found == files_.end()) return State::kNever;
  return found->second == sha256 ? State::kTrusted : State::kChanged;
}

bool TrustedCode::trusts_module(std::string_view name) const {
  const auto found = modules_.find(std::string(name));
  return found != modules_.end() && found->second;
}

void TrustedCode::trust(const fs::path& real, std::string sha256) {
  files_[real.string()] = std::move(sha256);
}

void TrustedCode::trust_module(const std::string& name) { modules_[name] = true; }

std::vector<std::string> TrustedCode::forget(const fs::path& real) {
  std::vector<std::string> forgotten;
  std::erase_if(files_, [&](const auto& file) {
    if (file.first != real && !lies_below(file.first, real.string())) return false;
    forgotten.push_back(file.first);
    return true;
  });
  return forgotten;
}

bool TrustedCode::forget_module(const std::string& name) {
  const bool was_trusted = trusts_module(name);
  if (std::ranges::find(kShippedModules, name) != kShippedModules.end()) modules_[name] = false;
  else modules_.erase(name);
  return was_trusted;
}

std::vector<std::string> TrustedCode::modules() const {
  std::vector<std::string> names;
  for (const auto& [name, is_trusted] : modules_)
    if (is_trusted) names.push_back(name);
  return names;
}

void TrustedCode::save() const {
  if (file_.empty())
    throw WriteError({ErrorCode::kCannotCreate,
                      {},
                      "",
                      "there is no folder for the list of trusted code",
                      "set HOME or XDG_CONFIG_HOME to an absolute path"});
  const OwnFilesOnly own_files_only;
  try {
    make_folders(file_.parent_path());
  } catch (const fs::filesystem_error& error) {
    throw WriteError(
        write_diagnostic(file_.parent_path(), error.code().value(), ErrorCode::kCannotCreate));
  }
  const Json json = {{"schema", 1}, {"files", files_}, {"modules", modules_}};
  write_atomically(file_, json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

fs::path TrustedCode::standard_file() {
  const auto absolute = [](const char* name) {
    const char* const value = std::getenv(name);
    const fs::path path = value ? value : "";
    return path.is_absolute() ? path : fs::path();
  };
  fs::path folder = absolute("XDG_CONFIG_HOME");
  if (const fs::path home = absolute("HOME"); folder.empty() && !home.empty())
    folder = home / ".config";
  return folder.empty() ? folder : folder / "retort" / "trusted.json";
}

std::optional<CodeFile> read_code(const fs::path& file) {
  std::error_code error;
  const fs::path real = fs::canonical(file, error);
  if (error) return std::nullopt;
  auto text = real_file_system().read(real, kLargestCode);
  if (!text) return std::nullopt;
  std::string digest = sha256(*text);
  return CodeFile{real, std::move(digest), *std::move(text)};
}

std::vector<fs::path> python_files_below(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  fs::recursive_directory_iterator at(folder, fs::directory_options::skip_permission_denied, error);
  for (; !error && at != fs::recursive_directory_iterator(); at.increment(error)) {
    const fs::path& path = at->path();
    const bool is_hidden = path.filename().string().starts_with('.');
    std::error_code unknown;
    if (is_hidden && at->is_directory(unknown)) at.disable_recursion_pending();
    else if (path.extension() == ".py" && at->is_regular_file(unknown)) files.push_back(path);
  }
  std::ranges::sort(files);
  return files;
}

}  // namespace runner
