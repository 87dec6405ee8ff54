#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "runner/shared/error/diagnostic.h"
#include "stages/data/image_list.h"

namespace stages {

/// True if `path` is `folder` or below it. Compares names only; both paths must be normalized.
bool is_below(const std::filesystem::path& path, const std::filesystem::path& folder);

/// The maximum number of file names listed in a message.
inline constexpr std::size_t kListedFiles = 20;

/// The image folder. Decides which of the links in it are followed, and collects errors about those
/// that are not.
class ImageRoot {
 public:
  ImageRoot(std::filesystem::path root, bool allow_outside)
      : ImageRoot(root, allow_outside, root) {}
  /// Links may point anywhere below `bounds`, which contains `root`.
  ImageRoot(std::filesystem::path root, bool allow_outside, std::filesystem::path bounds);

  const std::filesystem::path& path() const { return root_; }
  bool is_folder() const { return is_folder_; }

  /// True if the link at `below` may be followed. Otherwise the link is broken or points out of
  /// bounds, and is recorded for report().
  bool follows(const std::string& below);
  bool refused_some() const { return !outside_.empty() || !broken_.empty(); }

  /// Adds one error for all links that point out of bounds, and one for all broken links.
  void report(runner::Diagnostics& errors) const;

 private:
  std::filesystem::path root_, bounds_, real_bounds_;
  bool allow_outside_, is_folder_;
  std::vector<std::string> outside_, broken_;
};

/// Finds files by the names in a list. The list and the disk may encode accents differently, as one
/// character or as two, as happens when files move between macOS and Linux.
class NamesOnDisk {
 public:
  /// Returns `path` as spelled on disk, or unchanged if no such file exists.
  std::filesystem::path called(const std::filesystem::path& path);
  bool has_folder(const std::filesystem::path& path);

 private:
  using Names = std::map<std::string, std::string>;  // keyed by compared_name()
  const Names& names_in(const std::filesystem::path& folder);

  std::map<std::filesystem::path, Names> folders_;  // folders listed so far
};

/// Returns the missing files of `list`, in the list's order. Adds errors for broken links and,
/// unless `allow_outside` is true, for links that point outside the root.
std::vector<std::string> missing_files(const ImageList& list, bool allow_outside,
                                       runner::Diagnostics& errors);

/// Adds errors for missing files of `list`, for broken links and, unless `allow_outside` is true,
/// for links that point outside the root. Use it for lists that were not made by listing folders.
/// Lists at most `most` missing files; `help` is the advice shown with them.
void check_files(
    const ImageList& list, bool allow_outside, runner::Diagnostics& errors,
    std::size_t most = kListedFiles,
    const std::string& help = "unpack the dataset's archive again: it was not unpacked completely");

}  // namespace stages
