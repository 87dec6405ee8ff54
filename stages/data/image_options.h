#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "runner/stage/config_reader.h"
#include "stages/data/image_dataset.h"

namespace stages {

/// The options that the data stages of image files share (schemas/images.schema.json).
struct ImageOptions {
  std::string root;
  bool allow_outside = false;
  std::int64_t cache_mib = 0;
  ImageDatasetOptions images;
};

/// Reads them, telling `reader` of those that contradict each other.
ImageOptions read_image_options(runner::ConfigReader& reader);

/// Reads one of the words that the schema allows.
template <typename T, std::size_t size>
void read_word(runner::ConfigReader& reader, std::string_view key,
               const std::array<std::pair<std::string_view, T>, size>& words, T& field) {
  std::string word;
  reader.read(key, word);
  const auto* const found = std::ranges::find(words, word, [](const auto& item) { return item.first; });
  if (found != words.end()) field = found->second;
}

/// The section `key`, null where the recipe says null.
runner::ConfigReader* section_or_null(runner::ConfigReader& reader, std::string_view key);

}  // namespace stages
