#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runner/shared/error/diagnostic.h"

namespace runner {

/// The code that this user allows to run, stored in trusted.json in the user's config folder: files
/// by real path and SHA-256, and installed modules by package name. timm, torchvision and
/// transformers are trusted unless the user has removed them.
///
///   auto trusted = TrustedCode::read();
///   trusted->trust(path, sha256);
///   trusted->save();
class TrustedCode {
 public:
  enum class State {
    kNever,    ///< the user has not allowed it
    kChanged,  ///< the user has allowed a file with that name but different content
    kTrusted,
  };

  /// Starts with only the modules trusted by default; save() writes to `file`.
  explicit TrustedCode(std::filesystem::path file);
  /// Reads `file`, which need not exist. A damaged file is an error, so that no code is trusted by
  /// accident.
  static Result<TrustedCode> read(std::filesystem::path file = standard_file());

  State state(const std::filesystem::path& real, std::string_view sha256) const;
  bool trusts_module(std::string_view name) const;

  void trust(const std::filesystem::path& real, std::string sha256);
  void trust_module(const std::string& name);
  /// Stops trusting the file, or all files in the folder. Returns the paths that were trusted.
  std::vector<std::string> forget(const std::filesystem::path& real);
  /// Stops trusting the module. Returns false if it was not trusted.
  bool forget_module(const std::string& name);

  /// Returns the SHA-256 of each file by real path, sorted.
  const std::map<std::string, std::string>& files() const { return files_; }
  std::vector<std::string> modules() const;

  /// Replaces the file, which only the user may read. Throws WriteError.
  void save() const;

  /// Returns the path of retort/trusted.json under $XDG_CONFIG_HOME or, failing that, under
  /// $HOME/.config; empty if neither variable is set to an absolute path.
  static std::filesystem::path standard_file();

 private:
  std::filesystem::path file_;
  std::map<std::string, std::string> files_;
  std::map<std::string, bool> modules_;  // false: the user has removed it
};

/// A file read in one go, so `sha256` is the digest of `text`.
struct CodeFile {
  std::filesystem::path real;  ///< without links
  std::string sha256, text;
};

/// Reads a file; nullopt if it is not a regular file, cannot be read or is larger than 64 MiB.
std::optional<CodeFile> read_code(const std::filesystem::path& file);

/// Returns the Python files in and below `folder`, sorted. Skips hidden folders and does not follow
/// links to folders.
std::vector<std::filesystem::path> python_files_below(const std::filesystem::path& folder);

}  // namespace runner
