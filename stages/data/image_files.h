#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "runner/shared/error/diagnostic.h"
#include "stages/data/image_list.h"

namespace stages {

/// Does `path` lead down from `folder`, or to it? By their names alone: both are in normal form.
bool is_below(const std::filesystem::path& path, const std::filesystem::path& folder);

/// How many names of files a message lists.
inline constexpr std::size_t kListedFiles = 20;

/// The folder that images lie in: which links in it are followed, and what was found to be wrong
/// with them.
class ImageRoot {
 public:
  ImageRoot(std::filesystem::path root, bool allow_outside)
      : ImageRoot(root, allow_outside, root) {}
  /// Links may lead anywhere below `bounds`, which holds `root`.
  ImageRoot(std::filesystem::path root, bool allow_outside, std::filesystem::path bounds);

  const std::filesystem::path& path() const { return root_; }
  bool is_folder() const { return is_folder_; }

  /// May the link at `below` be followed? Remembered where not: it leads out of the root, or
  /// nowhere.
  bool follows(const std::string& below);
  bool refused_some() const { return !outside_.empty() || !broken_.empty(); }

  /// Adds an error for the links that lead out, and one for those that lead nowhere.
  void report(runner::Diagnostics& errors) const;

 private:
  std::filesystem::path root_, bounds_, real_bounds_;
  bool allow_outside_, is_folder_;
  std::vector<std::string> outside_, broken_;
};

/// The files of `list` that are not there, in its order; links that lead nowhere or, unless
/// `allow_outside`, out of its root become errors.
std::vector<std::string> missing_files(const ImageList& list, bool allow_outside,
                                       runner::Diagnostics& errors);

/// Adds an error for the files of `list` that are not there, and for links that lead nowhere or,
/// unless `allow_outside`, out of its root. For lists whose names come from elsewhere than the
/// folders. Of the files that are not there `most` are named, and `help` says what to do.
void check_files(const ImageList& list, bool allow_outside, runner::Diagnostics& errors,
                 std::size_t most = kListedFiles,
                 const std::string& help =
                     "unpack the data set's archive again: it was not unpacked completely");

}  // namespace stages
