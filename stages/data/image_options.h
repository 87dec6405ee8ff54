#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "stages/data/image_dataset.h"

namespace runner {
class ConfigReader;
}

namespace stages {

/// The options shared by all data stages that read image files (schemas/images.schema.json).
struct ImageOptions {
  std::string root;
  bool allow_outside = false;
  std::optional<std::int64_t> cache_mib = 0;  ///< nullopt: all memory that the plans leave free
  bool cache_on_disk = false;
  ImageDatasetOptions images;
};

/// Reads the common options; `reader` collects the errors.
ImageOptions read_image_options(runner::ConfigReader& reader);

/// Returns the section `key`; null if the recipe sets it to null.
runner::ConfigReader* section_or_null(runner::ConfigReader& reader, std::string_view key);

}  // namespace stages
