#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runner/shared/disk/file_digests.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/value/value.h"

namespace runner {

/// One parsed config file.
struct ConfigDocument {
  std::filesystem::path file;
  Value contents;  ///< a mapping that still contains `defaults`; a list if the package is a list
  std::optional<std::string> package;  ///< from the "# @package" header; nullopt if there is none
};

/// Finds and reads the config files below a list of folders; each file is read once. Configs are
/// named without their extension: "classify", or "model/tiny" for the option tiny of the group
/// model. The first folder that contains the file wins.
class ConfigFiles {
 public:
  /// `files` and `sources` are borrowed.
  ConfigFiles(const FileSystem& files, std::vector<std::filesystem::path> folders, Sources& sources)
      : files_(files), folders_(std::move(folders)), sources_(sources) {}

  /// Returns the file of a config; nullopt if no folder contains it.
  std::optional<std::filesystem::path> find(const std::string& name) const;
  bool is_group(const std::string& name) const;
  /// Returns every group, sorted: "data", "model", "model/backbone".
  std::vector<std::string> groups() const;
  /// The folders searched for configs, nearest first.
  const std::vector<std::filesystem::path>& folders() const { return folders_; }
  bool has_folder(const std::filesystem::path& folder) const { return files_.is_folder(folder); }
  /// Returns the names of the configs in a group, sorted; "" is the top level.
  std::vector<std::string> options(const std::string& group) const;

  /// Reads a file, or returns the document from an earlier call; the pointer stays valid. Null if
  /// the file is invalid; its errors are added to `errors` on the first call only.
  const ConfigDocument* read(const std::filesystem::path& file, Diagnostics& errors);

  /// Warnings from the files read so far.
  const Diagnostics& warnings() const { return warnings_; }

 private:
  const FileSystem& files_;
  const std::vector<std::filesystem::path> folders_;
  Sources& sources_;
  Diagnostics warnings_;
  std::map<std::filesystem::path, std::unique_ptr<ConfigDocument>> read_;
  // Cached file system queries, since a sweep repeats them for every trial.
  mutable std::map<std::string, std::optional<std::filesystem::path>> found_;
  mutable std::map<std::string, bool> is_group_;
};

}  // namespace runner
