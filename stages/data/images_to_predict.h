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

/// The images to predict, and other files found next to them.
struct ImagePaths {
  std::vector<std::string> files;
  runner::NotTaken not_taken;
  runner::NotTaken other_formats;  ///< files found in folders that look like images in unsupported
                                   ///< formats
};

/// The image files that `paths` name. A file counts as one whatever its name. A folder gives the
/// files in and below it that have an image's name, in a supported format or another
/// (runner/shared/text/image_names.h), sorted. Hidden files and links to folders are left out. No
/// file is opened. Reports all errors at once: a missing path, a folder that is unreadable or has
/// no image, a link in a folder that is broken or leads out of it.
runner::Result<ImagePaths> list_images(const std::vector<std::string>& paths);

/// Why an image could not be read.
struct Unreadable {
  runner::ErrorCode code;
  std::string message;  ///< names the file
};

/// Images without classes, for prediction: "image" as in evaluation.
class ImagesToPredict final : public Dataset {
 public:
  /// `skip`: an unreadable image is left out and remembered, instead of being an error.
  ImagesToPredict(std::vector<std::string> files, ImageDatasetOptions options, bool skip);

  DatasetDescription describe() const override;
  std::optional<NamedTensors> sample(std::int64_t epoch, std::int64_t index) const override;
  std::string sample_name(std::int64_t index) const override {
    return pictures_.sample_name(index);
  }
  LoaderOptions loader() const override { return pictures_.loader(); }

  /// Images read so far, in order, that do not look like the subject of the network's training
  /// data.
  std::vector<std::string> unlike() const;
  /// The subject that they should look like; null: any.
  const ImageSubject* subject() const { return pictures_.options().subject; }
  /// The reason why image `index` was left out, which is then forgotten; nullopt if it was not.
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
