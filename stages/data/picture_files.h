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

/// Pictures to be predicted, and what lies beside them.
struct PictureList {
  std::vector<std::string> files;
  runner::NotTaken not_taken;
  runner::NotTaken other_formats;  ///< those of `files` in folders that end as images in formats
                                   ///< that are not read
};

/// The image files that `paths` name: a file is one whatever its name; of a folder, those in it and
/// below whose name is an image's, in a format that is read or another
/// (runner/shared/text/image_names.h), sorted. Hidden ones and links to folders are left out. None
/// is opened. All errors at once: a path that is not there, a folder that cannot be read or has no
/// image, a link in a folder that leads nowhere or out of it.
runner::Result<PictureList> list_pictures(const std::vector<std::string>& paths);

/// Why a picture could not be read.
struct Unreadable {
  runner::ErrorCode code;
  std::string message;  ///< names the file
};

/// Pictures without classes, for prediction: "image" as in evaluation.
class PictureFiles final : public Dataset {
 public:
  /// `skip`: one that cannot be read is left out and remembered, in place of an error.
  PictureFiles(std::vector<std::string> files, ImageDatasetOptions options, bool skip);

  DatasetDescription describe() const override;
  std::optional<NamedTensors> sample(std::int64_t epoch, std::int64_t index) const override;
  std::string sample_name(std::int64_t index) const override {
    return pictures_.sample_name(index);
  }
  LoaderOptions loader() const override { return pictures_.loader(); }

  /// Pictures that have been read, in their order, and do not look like the subject of what the
  /// network learned from.
  std::vector<std::string> unlike() const;
  /// What they should look like; null: anything.
  const ImageSubject* subject() const { return pictures_.options().subject; }
  /// Why the picture `index` was left out, and forgets it; nullopt where it was not.
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
