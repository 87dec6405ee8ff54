#include "stages/data/images_to_predict.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "runner/shared/stage/stage.h"
#include "runner/shared/text/printable.h"
#include "runner/shared/text/utf8.h"

namespace stages {
namespace {

namespace fs = std::filesystem;
using runner::Diagnostic;
using runner::Diagnostics;
using runner::ErrorCode;

/// Finds the images below one folder.
class Search {
 public:
  Search(fs::path root, ImagePaths& found, Diagnostics& errors)
      : root_(std::move(root)), found_(found), errors_(errors) {}

  void run() {
    std::error_code error;
    real_root_ = fs::canonical(root_, error);
    const std::size_t before = errors_.size();
    look_into(root_);
    std::ranges::sort(files_);
    if (files_.empty() && errors_.size() == before) {
      const std::string not_taken = found_.not_taken.text();
      fail(ErrorCode::kTooFewSamples,
           "there are no images in the folder '" + root_.string() + "'" +
               (not_taken.empty() ? "" : ": " + not_taken),
           "only files ending in " + std::string(runner::kImageEndings) +
               " count as images; subfolders are searched, too");
    }
    std::ranges::move(files_, std::back_inserter(found_.files));
  }

 private:
  void look_into(const fs::path& folder) {
    std::vector<fs::path> folders;
    std::error_code error;
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
      const fs::path& path = at->path();
      const std::string name = path.filename().string();
      std::error_code ignored;
      if (at->is_directory(ignored)) {
        if (name.starts_with('.') || at->is_symlink(ignored)) found_.not_taken.folder(name);
        else folders.push_back(path);
      } else if (!runner::is_image_name(name) && !runner::is_other_image_name(name)) {
        found_.not_taken.file(name);
      } else if (!at->is_symlink(ignored) || stays_inside(path)) {
        if (runner::invalid_utf8(name)) {
          fail(ErrorCode::kBadAnnotations,
               "the name of the image '" + runner::printable(path.string()) + "' is not UTF-8 text",
               "rename it, since results use this name");
          continue;
        }
        files_.push_back(path.string());
        if (!runner::is_image_name(name)) found_.other_formats.file(name);
      }
    }
    if (error)
      fail(ErrorCode::kMissingFolder,
           "the folder '" + folder.string() + "' cannot be read: " + error.message(), "");
    for (const fs::path& next : folders)
      look_into(next);  // this folder has been closed, since nesting may be deep
  }

  bool stays_inside(const fs::path& link) {
    std::error_code error;
    const fs::path real = fs::canonical(link, error);
    if (error) {
      fail(ErrorCode::kMissingImage, "the symlink '" + link.string() + "' is broken",
           "remove or fix it");
      return false;
    }
    if (std::mismatch(real_root_.begin(), real_root_.end(), real.begin(), real.end()).first ==
        real_root_.end()) {
      return true;
    }
    fail(ErrorCode::kOutsideRoot,
         "the symlink '" + link.string() + "' points outside '" + root_.string() + "'",
         "to include it, give the file itself");
    return false;
  }

  void fail(ErrorCode code, std::string message, std::string help) {
    errors_.push_back({code, {}, "", std::move(message), std::move(help)});
  }

  const fs::path root_;
  fs::path real_root_;
  ImagePaths& found_;
  Diagnostics& errors_;
  std::vector<std::string> files_;
};

std::shared_ptr<const ImageList> as_list(std::vector<std::string> files) {
  auto list = std::make_shared<ImageList>();
  for (std::string& file : files) (*list)[Part::kTest].push_back({std::move(file), 0});
  return list;
}

ImageDatasetOptions stopping(ImageDatasetOptions options) {
  options.on_corrupt = OnCorrupt::kStop;  // so sample() reports the cause
  return options;
}

}  // namespace

runner::Result<ImagePaths> list_images(const std::vector<std::string>& paths) {
  ImagePaths found;
  Diagnostics errors;
  for (const std::string& path : paths) {
    std::error_code error;
    if (fs::is_directory(path, error)) {
      Search(path, found, errors).run();
    } else if (fs::exists(path, error)) {
      found.files.push_back(path);
    } else {
      errors.push_back({ErrorCode::kMissingImage,
                        {},
                        "",
                        "there is no file or folder '" + path + "'",
                        "give images or folders of images"});
    }
  }
  if (!errors.empty()) return errors;
  return found;
}

ImagesToPredict::ImagesToPredict(std::vector<std::string> files, ImageDatasetOptions options,
                                 bool skip)
    : pictures_(as_list(std::move(files)), Part::kTest, looking(stopping(std::move(options))),
                /*seed=*/0, nullptr),
      skip_(skip) {}

ImageDatasetOptions ImagesToPredict::looking(ImageDatasetOptions options) const {
  if (!options.subject) return options;
  options.look = [this, subject = options.subject](std::int64_t index, const Image& picture) {
    if (subject->looks_alike(picture)) return;
    const std::lock_guard lock(mutex_);
    unlike_.insert(index);
  };
  return options;
}

std::vector<std::string> ImagesToPredict::unlike() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  for (const std::int64_t index : unlike_) names.push_back(sample_name(index));
  return names;
}

DatasetDescription ImagesToPredict::describe() const { return pictures_.describe(); }

std::optional<NamedTensors> ImagesToPredict::sample(std::int64_t epoch, std::int64_t index) const {
  try {
    return pictures_.sample(epoch, index);
  } catch (const runner::StageError& error) {
    if (!skip_) {
      throw runner::StageError(error.code, error.what())
          .with_help("add --skip-corrupt to leave out unreadable images");
    }
    const std::lock_guard lock(mutex_);
    unreadable_.emplace(index, Unreadable{error.code, error.what()});
    return std::nullopt;
  }
}

std::optional<Unreadable> ImagesToPredict::take_unreadable(std::int64_t index) const {
  const std::lock_guard lock(mutex_);
  const auto found = unreadable_.find(index);
  if (found == unreadable_.end()) return std::nullopt;
  Unreadable result = std::move(found->second);
  unreadable_.erase(found);
  return result;
}

}  // namespace stages
