#include "stages/data/image_files.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "runner/shared/text/join.h"
#include "stages/text/class_text.h"

namespace stages {
namespace {

namespace fs = std::filesystem;
using runner::ErrorCode;

}  // namespace

bool is_below(const fs::path& path, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first ==
         folder.end();
}

ImageRoot::ImageRoot(fs::path root, bool allow_outside, fs::path bounds)
    : root_(std::move(root)), bounds_(std::move(bounds)), allow_outside_(allow_outside) {
  std::error_code error;
  real_bounds_ = fs::canonical(bounds_, error);
  is_folder_ = !error && fs::is_directory(root_, error);
}

bool ImageRoot::follows(const std::string& below) {
  std::error_code error;
  const fs::path real = fs::canonical(root_ / below, error);
  if (error) {
    broken_.push_back(below);
    return false;
  }
  if (allow_outside_ || is_below(real, real_bounds_)) return true;
  outside_.push_back(below);
  return false;
}

void ImageRoot::report(runner::Diagnostics& errors) const {
  if (!outside_.empty()) {
    errors.push_back({ErrorCode::kOutsideRoot,
                      {},
                      "",
                      "symlinks point outside '" + bounds_.string() +
                          "': " + runner::listed(outside_, kListedFiles, "'"),
                      "set allow_outside: true to follow them"});
  }
  if (!broken_.empty()) {
    errors.push_back({ErrorCode::kMissingImage,
                      {},
                      "",
                      "broken symlinks: " + runner::listed(broken_, kListedFiles, "'"),
                      "remove or fix them"});
  }
}

namespace {

namespace fs = std::filesystem;
using runner::ErrorCode;

/// Checks whether files exist. Each folder on their paths is checked only once.
class FileCheck {
 public:
  FileCheck(const fs::path& root, bool allow_outside) : root_(root, allow_outside) {}

  void file(const std::string& below) {
    const bool is_reached = has_folder(below.substr(0, below.rfind('/') + 1));
    if (!is_reached) {
      if (!is_refused_) missing_.push_back(below);
      return;
    }
    std::error_code error;
    const fs::path path = root_.path() / below;
    fs::file_status status = fs::symlink_status(path, error);
    if (status.type() == fs::file_type::symlink) {
      if (!root_.follows(below)) return;
      status = fs::status(path, error);
    }
    if (status.type() != fs::file_type::regular) missing_.push_back(below);
  }

  void report(runner::Diagnostics& errors) const { root_.report(errors); }
  std::vector<std::string> take_missing() { return std::move(missing_); }

 private:
  /// True if files in `folder` ("" or "a/b/") can be opened. Sets `is_refused_` if a link on the
  /// path was refused; that is reported as a separate error.
  bool has_folder(const std::string& folder) {
    is_refused_ = false;
    if (folder.empty()) return true;
    const auto known = folders_.find(folder);
    if (known != folders_.end()) {
      is_refused_ = known->second == Folder::kRefused;
      return known->second == Folder::kThere;
    }
    Folder& found = folders_[folder];
    const std::string name = folder.substr(0, folder.size() - 1);
    const std::size_t slash = name.rfind('/');
    if (slash != std::string::npos && !has_folder(name.substr(0, slash + 1))) {
      found = is_refused_ ? Folder::kRefused : Folder::kMissing;
      return false;
    }
    std::error_code error;
    const fs::path path = root_.path() / name;
    if (fs::is_symlink(fs::symlink_status(path, error)) && !root_.follows(name))
      found = Folder::kRefused;
    else found = fs::is_directory(path, error) ? Folder::kThere : Folder::kMissing;
    is_refused_ = found == Folder::kRefused;
    return found == Folder::kThere;
  }

  enum class Folder { kThere, kMissing, kRefused };
  ImageRoot root_;
  std::map<std::string, Folder> folders_;
  std::vector<std::string> missing_;
  bool is_refused_ = false;
};

bool has_ascii_only(const std::string& text) {
  return std::ranges::all_of(text, [](unsigned char c) { return c < 0x80; });
}

}  // namespace

fs::path NamesOnDisk::called(const fs::path& path) {
  std::error_code error;
  if (has_ascii_only(path.native()) || fs::exists(path, error)) return path;
  fs::path found;
  for (const fs::path& part : path) {
    if (!has_ascii_only(part.native()) && !fs::exists(found / part, error)) {
      const Names& names = names_in(found);
      const auto name = names.find(compared_name(part.native()));
      if (name == names.end()) return path;
      found /= name->second;
    } else {
      found /= part;
    }
  }
  return fs::exists(found, error) ? found : path;
}

bool NamesOnDisk::has_folder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(called(path), error);
}

const NamesOnDisk::Names& NamesOnDisk::names_in(const fs::path& folder) {
  const auto [found, is_new] = folders_.try_emplace(folder);
  std::error_code error;
  if (is_new) {
    for (fs::directory_iterator at(folder.empty() ? "." : folder, error), end; !error && at != end;
         at.increment(error)) {
      const std::string name = at->path().filename().native();
      if (!has_ascii_only(name)) found->second.emplace(compared_name(name), name);
    }
  }
  return found->second;
}

std::vector<std::string> missing_files(const ImageList& list, bool allow_outside,
                                       runner::Diagnostics& errors) {
  FileCheck check(list.root, allow_outside);
  for (const auto& part : list.parts) {
    for (const ImageFile& file : part) check.file(file.name);
  }
  check.report(errors);
  return check.take_missing();
}

void check_files(const ImageList& list, bool allow_outside, runner::Diagnostics& errors,
                 std::size_t most, const std::string& help) {
  const std::vector<std::string> missing = missing_files(list, allow_outside, errors);
  if (missing.empty()) return;
  std::size_t count = 0;
  for (const auto& part : list.parts) count += part.size();
  errors.push_back({ErrorCode::kMissingImage,
                    {},
                    "",
                    std::to_string(missing.size()) + " of " + std::to_string(count) +
                        " images are not in '" + list.root.string() +
                        "': " + runner::listed(missing, most, "'"),
                    help});
}

}  // namespace stages
