#include "stages/data/subject_watch.h"

namespace stages {

bool SubjectWatch::see(Part part, std::int64_t index, const Image& picture) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = seen_.find({part, index}); found != seen_.end())
      return found->second != Seen::kNothingWrong;
  }
  const bool is_unlike = !subject_.looks_alike(picture);
  note(part, index, is_unlike);
  return is_unlike;
}

void SubjectWatch::note(Part part, std::int64_t index, bool is_unlike) {
  const std::lock_guard lock(mutex_);
  seen_.try_emplace({part, index}, is_unlike ? Seen::kUnlike : Seen::kNothingWrong);
}

SubjectWatch::Seen SubjectWatch::report(Part part, std::int64_t index) {
  const std::lock_guard lock(mutex_);
  const auto found = seen_.find({part, index});
  if (found == seen_.end()) return Seen::kNothingWrong;
  const Seen seen = found->second;
  if (seen == Seen::kUnlike) found->second = Seen::kReportedUnlike;
  return seen;
}

}  // namespace stages
