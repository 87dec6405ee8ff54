#include "stages/data/image_cache.h"

#include <utility>

namespace stages {
namespace {

std::int64_t cost(const KeptImage& kept) {
  return static_cast<std::int64_t>(kept.image->pixels.size()) + ImageCache::kOverhead;
}

}  // namespace

std::optional<KeptImage> ImageCache::find(std::uint64_t key) const {
  const std::lock_guard lock(mutex_);
  const auto found = images_.find(key);
  return found == images_.end() ? std::nullopt : std::optional(found->second);
}

bool ImageCache::put(std::uint64_t key, KeptImage image) {
  const std::int64_t bytes = cost(image);
  const std::lock_guard lock(mutex_);
  if (images_.contains(key)) return true;
  if (bytes > limit_bytes_ - bytes_) return false;
  images_.emplace(key, std::move(image));
  bytes_ += bytes;
  return true;
}

std::int64_t ImageCache::limit_bytes() const {
  const std::lock_guard lock(mutex_);
  return limit_bytes_;
}

void ImageCache::set_limit(std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  limit_bytes_ = bytes;
  while (bytes_ > limit_bytes_ && !images_.empty()) {
    bytes_ -= cost(images_.begin()->second);
    images_.erase(images_.begin());
  }
}

}  // namespace stages
