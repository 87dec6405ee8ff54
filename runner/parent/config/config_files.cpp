#include "runner/parent/config/config_files.h"

#include <algorithm>

#include "runner/parent/config/yaml_reader.h"

namespace runner {
namespace {

using std::filesystem::path;

constexpr std::size_t kMaxFileSize = 4u << 20;
constexpr std::size_t kMaxHeader = 512;  // number of bytes searched for "# @package"

/// Returns the package named by a comment in the leading lines; nullopt if there is none.
std::optional<std::string> package_header(std::string_view text) {
  text = text.substr(0, kMaxHeader);
  while (text.starts_with('#') || text.starts_with('\n') || text.starts_with('\r')) {
    std::string_view line = text.substr(0, text.find_first_of("\r\n"));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const std::size_t at = line.find("@package");
    if (at == line.npos || line.substr(1, at - 1).find_first_not_of(" \t") != line.npos) continue;
    line.remove_prefix(at + std::string_view("@package").size());
    const std::size_t start = line.find_first_not_of(" \t:");
    if (start == line.npos) continue;
    line.remove_prefix(start);
    return std::string(line.substr(0, line.find_last_not_of(" \t") + 1));
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::filesystem::path> ConfigFiles::find(const std::string& name) const {
  const auto [known, is_new] = found_.try_emplace(name);
  if (!is_new) return known->second;
  for (const auto& folder : folders_) {
    std::filesystem::path file = (folder / (name + ".yaml")).lexically_normal();
    if (files_.is_file(file)) return known->second = file;
  }
  return std::nullopt;
}

bool ConfigFiles::is_group(const std::string& name) const {
  const auto [known, is_new] = is_group_.try_emplace(name);
  if (is_new) {
    known->second = std::ranges::any_of(
        folders_, [&](const auto& folder) { return files_.is_folder(folder / name); });
  }
  return known->second;
}

std::vector<std::string> ConfigFiles::groups() const {
  std::vector<std::string> groups;
  const auto gather = [&](const auto& self, const path& folder, const std::string& above,
                          int depth) -> void {
    for (const std::string& name : files_.list(folder)) {
      if (depth > 8 || name.find('.') != name.npos || !files_.is_folder(folder / name)) continue;
      groups.push_back(above + name);
      self(self, folder / name, above + name + "/", depth + 1);
    }
  };
  for (const path& folder : folders_) gather(gather, folder, "", 0);
  std::ranges::sort(groups);
  groups.erase(std::unique(groups.begin(), groups.end()), groups.end());
  return groups;
}

std::vector<std::string> ConfigFiles::options(const std::string& group) const {
  std::vector<std::string> names;
  for (const auto& folder : folders_) {
    for (const std::string& name : files_.list(folder / group)) {
      if (name.ends_with(".yaml") && name.size() > 5)
        names.push_back(name.substr(0, name.size() - 5));
    }
  }
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

const ConfigDocument* ConfigFiles::read(const std::filesystem::path& file, Diagnostics& errors) {
  const auto [found, is_new] = read_.try_emplace(file);
  if (!is_new) return found->second.get();
  std::optional<std::string> text = files_.read(file, kMaxFileSize);
  if (!text) {
    const bool exists = files_.is_file(file);
    errors.push_back({exists ? ErrorCode::kFileTooLarge : ErrorCode::kRecipeNotFound,
                      {},
                      "",
                      exists ? "'" + file.string() + "' cannot be read or is larger than 4 MiB"
                             : "there is no file '" + file.string() + "'",
                      ""});
    return nullptr;
  }
  const SourceText& source = sources_.add(file.string(), *std::move(text));
  Result<Value> contents = read_yaml(source, &warnings_);
  if (!contents) {
    errors.insert(errors.end(), contents.errors().begin(), contents.errors().end());
    return nullptr;
  }
  if (!contents->map() && !contents->list()) {
    errors.push_back({ErrorCode::kYamlSyntax, contents->where, "",
                      "a config must be a mapping or a list, not " + describe(*contents),
                      "write key: value"});
    return nullptr;
  }
  found->second = std::make_unique<ConfigDocument>(
      ConfigDocument{file, *std::move(contents), package_header(source.contents)});
  return found->second.get();
}

}  // namespace runner
