#include "stages/data/image_cache.h"

namespace stages {

std::shared_ptr<const Image> ImageCache::find(std::uint64_t key) const {
  const std::lock_guard lock(mutex_);
  const auto found = images_.find(key);
  return found == images_.end() ? nullptr : found->second;
}

void ImageCache::put(std::uint64_t key, std::shared_ptr<const Image> image) {
  const auto bytes = static_cast<std::int64_t>(image->pixels.size());
  const std::lock_guard lock(mutex_);
  if (bytes > limit_bytes_ - bytes_) return;
  if (images_.emplace(key, std::move(image)).second) bytes_ += bytes;
}

}  // namespace stages
