#pragma once

#include <cstdint>
#include <optional>

#include "stages/numerics/precision_module.h"

namespace stages {

/// Channels, height and width of what a network makes of an image.
struct MapShape {
  std::int64_t channels = 0, height = 0, width = 0;
  std::int64_t features() const { return channels * height * width; }
  bool operator==(const MapShape&) const = default;
};

/// A network that makes maps of features of images.
class FeatureMaps : public PrecisionModule {
 public:
  /// (n, 3, height, width) to (n, channels, height', width') of shape().
  virtual at::Tensor forward(const at::Tensor& images) const = 0;
  /// What it makes of images of that size; nullopt where they are too small to be pooled as often as it does.
  virtual std::optional<MapShape> shape(std::int64_t height, std::int64_t width) const = 0;
};

}  // namespace stages
