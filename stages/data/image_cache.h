#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "stages/data/image.h"

namespace stages {

/// A picture that is kept, decoded or also cut to size.
struct KeptImage {
  std::shared_ptr<const Image> image;
  int width = 0, height = 0;  ///< of the whole picture as it is to be seen
};

/// Pictures, kept from their first use until `limit_bytes` are full; none is ever pushed out for another, since a pass
/// over more pictures than fit would otherwise find nothing. Thread-safe.
class ImageCache {
 public:
  /// What one costs beside its pixels, at most.
  static constexpr std::int64_t kOverhead = 256;

  explicit ImageCache(std::int64_t limit_bytes) : ImageCache(limit_bytes, limit_bytes) {}
  /// `most_bytes`: that it could use, where its limit is set later.
  ImageCache(std::int64_t limit_bytes, std::int64_t most_bytes) : most_bytes_(most_bytes), limit_bytes_(limit_bytes) {}

  /// nullopt when it is not here.
  std::optional<KeptImage> find(std::uint64_t key) const;
  /// Keeps it if there is room; is it kept?
  bool put(std::uint64_t key, KeptImage image);

  std::int64_t most_bytes() const { return most_bytes_; }
  std::int64_t limit_bytes() const;
  /// Lets go of what is beyond that.
  void set_limit(std::int64_t bytes);

 private:
  const std::int64_t most_bytes_;
  mutable std::mutex mutex_;
  std::int64_t limit_bytes_;
  std::int64_t bytes_ = 0;
  std::unordered_map<std::uint64_t, KeptImage> images_;
};

}  // namespace stages
