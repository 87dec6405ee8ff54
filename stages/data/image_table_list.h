#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "runner/shared/error/result.h"
#include "stages/data/captions.h"
#include "stages/data/image_list.h"

namespace stages {

/// A table of images in CSV, and which of its columns say what.
struct ImageTable {
  std::filesystem::path root;  ///< that the images' paths count from
  std::filesystem::path file;
  std::string image, label;              ///< columns: of paths, and of names of classes
  std::optional<std::string> part = {};  ///< of train, validation or test; nullopt: all images are for training
  std::int64_t minimum_per_class = 1;    ///< classes with fewer images are left out
  std::span<const CaptionTemplate> captions = {};  ///< their fields are columns
  bool allow_outside = false;
};

/// Lists the images of `table` in the order of its rows; classes are sorted bytewise. Captions can say what the columns
/// that the templates name have in the image's row. Spaces around a field do not count; an empty path, label or field
/// of a caption is an error, and so is an image that is there twice. Everything wrong is reported at once, at the
/// option that says it: "/root", "/table", "/image", "/label", "/part", "/caption" or "/minimum_per_class"; faults of
/// rows with their lines, and so images that are not there.
runner::Result<ImageList> list_image_table(const ImageTable& table);

}  // namespace stages
