#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "runner/shared/error/diagnostic.h"
#include "stages/data/image_list.h"

namespace stages {

/// Is `path` equal to `folder` or below it? Compares names only: both are in normal form.
bool is_below(const std::filesystem::path& path, const std::filesystem::path& folder);

/// How many file names a message lists.
inline constexpr std::size_t kListedFiles = 20;

/// The folder of the images: decides which links in it are followed, and collects errors about
/// them.
class ImageRoot {
 public:
  ImageRoot(std::filesystem::path root, bool allow_outside)
      : ImageRoot(root, allow_outside, root) {}
  /// Links may lead anywhere below `bounds`, which holds `root`.
  ImageRoot(std::filesystem::path root, bool allow_outside, std::filesystem::path bounds);

  const std::filesystem::path& path() const { return root_; }
  bool is_folder() const { return is_folder_; }

  /// May the link at `below` be followed? If not, remembers it: it leads out of the root, or is
  /// broken.
  bool follows(const std::string& below);
  bool refused_some() const { return !outside_.empty() || !broken_.empty(); }

  /// Adds one error for links that lead out of the root, and one for broken links.
  void report(runner::Diagnostics& errors) const;

 private:
  std::filesystem::path root_, bounds_, real_bounds_;
  bool allow_outside_, is_folder_;
  std::vector<std::string> outside_, broken_;
};

/// Finds files that a list names by a text: it may write accents as one character or as two, and
/// the disk the other way, as macOS and Linux do.
class NamesOnDisk {
 public:
  /// `path` as it is called on disk; unchanged if nothing there is called so.
  std::filesystem::path called(const std::filesystem::path& path);
  bool has_folder(const std::filesystem::path& path);

 private:
  using Names = std::map<std::string, std::string>;  // by compared_name()
  const Names& names_in(const std::filesystem::path& folder);

  std::map<std::filesystem::path, Names> folders_;  // those that were looked into
};

/// The missing files of `list`, in its order. Broken links become errors and so do, unless
/// `allow_outside`, links out of its root.
std::vector<std::string> missing_files(const ImageList& list, bool allow_outside,
                                       runner::Diagnostics& errors);

/// Adds an error for missing files of `list`, for broken links and, unless `allow_outside`, for
/// links out of its root. For lists whose names do not come from listing folders. Names at most
/// `most` missing files; `help` says what to do.
void check_files(const ImageList& list, bool allow_outside, runner::Diagnostics& errors,
                 std::size_t most = kListedFiles,
                 const std::string& help =
                     "unpack the data set's archive again: it was not unpacked completely");

}  // namespace stages
