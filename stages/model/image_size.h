#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "stages/artifact/dataset.h"

namespace stages {

// What a model of square images that are cut into patches asks of its data. All throw runner::StageError, which blames
// an option below `pointer`.

/// Height and width of the data's images, which are square, of three channels, a multiple of `patch_size`, and of
/// `wanted` where a model says that.
std::int64_t fitting_image_size(const DatasetDescription& data, std::optional<std::int64_t> wanted,
                                std::int64_t patch_size, const std::string& pointer);

/// How many logits a classifier has for such data: one a class, of which there are some, and `wanted` where a model
/// says that; or one for a pair, and then `wanted` is the number that the two are chosen from.
std::int64_t fitting_classes(const DatasetDescription& data, std::optional<std::int64_t> wanted,
                             const std::string& pointer);

/// "image_size 225 is not a multiple of patch_size 16".
std::string not_a_multiple(std::string_view what, std::int64_t value, std::string_view by, std::int64_t divisor);

}  // namespace stages
