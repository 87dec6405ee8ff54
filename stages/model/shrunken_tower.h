#pragma once

#include <cstdint>
#include <optional>

#include "stages/artifact/dataset.h"
#include "stages/model/vision_tower.h"

namespace stages {

/// Makes each layer of a tower as narrow as may be, and the image as small; there are as many layers as before.
void shrink(VisionTowerOptions& tower, std::optional<std::int64_t>& image_size,
            std::optional<std::int64_t>& projection_dim);

/// The data for such a tower: its images are as large, and its features as wide as `width`.
DatasetDescription shrunken_data(DatasetDescription data, std::int64_t width);

}  // namespace stages
