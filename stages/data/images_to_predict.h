#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runner/shared/error/diagnostic.h"
#include "runner/shared/text/image_names.h"
#include "stages/data/image_dataset.h"

namespace stages {

/// The images to predict, and the other files found in their folders.
struct ImagePaths {
  std::vector<std::string> files;
  runner::NotTaken not_taken;
  /// Files in those folders that look like images in unsupported formats.
  runner::NotTaken other_formats;
};

/// Returns the image files to which `paths` refer. A file given directly counts as an image,
/// regardless of its name. A path to a folder stands for all files in and below it that are named
/// like images, in supported formats or not (runner/shared/text/image_names.h), sorted. Hidden
/// files and links to folders are left out. No file is opened. Reports all errors at once: a
/// missing path, a folder that is unreadable or has no images, a link in a folder that is broken or
/// points outside it.
runner::Result<ImagePaths> list_images(const std::vector<std::string>& paths);

/// Why an image could not be read.
struct Unreadable {
  runner::ErrorCode code;
  std::string message;  ///< includes the file's name
};

/// Images without classes, for prediction. A sample contains only "image", as in evaluation.
class ImagesToPredict final : public Dataset {
 public:
  /// With `skip`, unreadable images are left out and recorded instead of causing an error.
  ImagesToPredict(std::vector<std::string> files, ImageDatasetOptions options, bool skip);

  DatasetDescription describe() const override;
  std::optional<NamedTensors> sample(std::int64_t epoch, std::int64_t index) const override;
  std::string sample_name(std::int64_t index) const override {
    return pictures_.sample_name(index);
  }
  LoaderOptions loader() const override { return pictures_.loader(); }

  /// Returns the images read so far that do not look like the subject of the training data, in
  /// order.
  std::vector<std::string> unlike() const;
  /// The subject that the images should show; null: any.
  const ImageSubject* subject() const { return pictures_.options().subject; }
  /// Returns the reason why image `index` was left out, and forgets it; nullopt if it was not left
  /// out.
  std::optional<Unreadable> take_unreadable(std::int64_t index) const;

 private:
  ImageDatasetOptions looking(ImageDatasetOptions options) const;

  const ImageDataset pictures_;
  const bool skip_;
  mutable std::mutex mutex_;
  mutable std::map<std::int64_t, Unreadable> unreadable_;  // by index
  mutable std::set<std::int64_t> unlike_;                  // indices
};

}  // namespace stages
