#include "stages/data/retina_watch.h"

#include <utility>

#include "stages/data/retina_check.h"

namespace stages {

void RetinaWatch::see(Part part, std::int64_t index, const Image& picture) {
  const Key key{part, index};
  {
    const std::lock_guard lock(mutex_);
    if (seen_.contains(key)) return;
  }
  const Seen seen = looks_like_retina(picture) ? Seen::kNothingWrong : Seen::kStranger;
  const std::lock_guard lock(mutex_);
  seen_.try_emplace(key, seen);
}

RetinaWatch::Seen RetinaWatch::tell(Part part, std::int64_t index) {
  const std::lock_guard lock(mutex_);
  const auto found = seen_.find({part, index});
  if (found == seen_.end()) return Seen::kNothingWrong;
  const Seen seen = found->second;
  if (seen == Seen::kStranger) found->second = Seen::kToldStranger;
  return seen;
}

}  // namespace stages
