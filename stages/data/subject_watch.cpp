#include "stages/data/subject_watch.h"

#include <utility>

namespace stages {

bool SubjectWatch::see(Part part, std::int64_t index, const Image& picture) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = seen_.find({part, index}); found != seen_.end()) return found->second != Seen::kNothingWrong;
  }
  const bool is_stranger = !subject_.looks_alike(picture);
  note(part, index, is_stranger);
  return is_stranger;
}

void SubjectWatch::note(Part part, std::int64_t index, bool is_stranger) {
  const std::lock_guard lock(mutex_);
  seen_.try_emplace({part, index}, is_stranger ? Seen::kStranger : Seen::kNothingWrong);
}

SubjectWatch::Seen SubjectWatch::tell(Part part, std::int64_t index) {
  const std::lock_guard lock(mutex_);
  const auto found = seen_.find({part, index});
  if (found == seen_.end()) return Seen::kNothingWrong;
  const Seen seen = found->second;
  if (seen == Seen::kStranger) found->second = Seen::kToldStranger;
  return seen;
}

}  // namespace stages
