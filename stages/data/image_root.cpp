#include "stages/data/image_root.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "runner/shared/text/join.h"

namespace stages {
namespace {

namespace fs = std::filesystem;
using runner::ErrorCode;

}  // namespace

bool is_below(const fs::path& path, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first == folder.end();
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
                      "symlinks lead out of '" + bounds_.string() + "': " + runner::listed(outside_, kListedFiles, "'"),
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

}  // namespace stages
