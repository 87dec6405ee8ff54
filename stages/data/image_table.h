#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runner/shared/error/diagnostic.h"
#include "stages/data/captions.h"
#include "stages/data/image_list.h"
#include "stages/data/label_columns.h"

namespace stages {

/// A CSV table of images, and the roles of its columns.
struct ImageTable {
  std::filesystem::path root;  ///< image paths are relative to it
  std::filesystem::path file;
  std::string image, label;  ///< the columns with image paths and class names
  /// The columns with labels, if an image can have any number of labels; `label` is then not used.
  std::optional<LabelColumns> labels = {};
  /// The columns with the values to predict for each image; `label` and `labels` are then not used.
  std::vector<std::string> targets = {};
  /// The column with train, validation or test; nullopt: all images are for training.
  std::optional<std::string> part = {};
  /// The column with an image's group, such as its patient; images of a group stay together.
  /// nullopt: each image is its own group.
  std::optional<std::string> group = {};
  std::int64_t minimum_per_class = 1;              ///< classes with fewer images are left out
  std::span<const CaptionTemplate> captions = {};  ///< their fields are column names
  bool allow_outside = false;
};

/// Lists the images of `table` in row order; classes are sorted bytewise. Caption templates can
/// refer to columns of the table. Spaces around a field are ignored. An empty path, label, group or
/// caption field is an error, and so are a target that is not a finite number and a duplicate
/// image. Reports all errors at once, at the responsible option: "/root", "/table", "/image",
/// "/label", "/labels/column", "/labels/columns", "/target", "/part", "/group", "/caption" or
/// "/minimum_per_class". Errors in rows and missing images are reported with line numbers.
runner::Result<ImageList> list_image_table(const ImageTable& table);

}  // namespace stages
