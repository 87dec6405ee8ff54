#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "stages/data/image.h"

namespace stages {

/// Decoded images, kept from their first use until `limit_bytes` are full; none is ever pushed out, since a pass over
/// more images than fit would otherwise find nothing. Thread-safe.
class ImageCache {
 public:
  explicit ImageCache(std::int64_t limit_bytes) : limit_bytes_(limit_bytes) {}

  /// Null when it is not here.
  std::shared_ptr<const Image> find(std::uint64_t key) const;
  /// Keeps `image` if there is room.
  void put(std::uint64_t key, std::shared_ptr<const Image> image);

 private:
  const std::int64_t limit_bytes_;
  mutable std::mutex mutex_;
  std::int64_t bytes_ = 0;
  std::unordered_map<std::uint64_t, std::shared_ptr<const Image>> images_;
};

}  // namespace stages
