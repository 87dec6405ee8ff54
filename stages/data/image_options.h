#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runner/shared/stage/config_reader.h"
#include "stages/data/image_dataset.h"

namespace stages {

/// The options that the data stages of image files share (schemas/images.schema.json).
struct ImageOptions {
  std::string root;
  bool allow_outside = false;
  std::optional<std::int64_t> cache_mib = 0;  ///< nullopt: what plans leave of the memory
  bool cache_on_disk = false;
  ImageDatasetOptions images;
};

/// Reads them, telling `reader` of those that contradict each other.
ImageOptions read_image_options(runner::ConfigReader& reader);

/// The section `key`, null where the recipe says null.
runner::ConfigReader* section_or_null(runner::ConfigReader& reader, std::string_view key);

}  // namespace stages
