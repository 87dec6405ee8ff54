#include "stages/data/subject_watch.h"

namespace stages {

void ImageFindings::note(Part part, std::int64_t index, bool is_unexpected) {
  const std::lock_guard lock(mutex_);
  seen_.try_emplace({part, index}, is_unexpected ? Seen::kUnexpected : Seen::kNothingWrong);
}

std::optional<bool> ImageFindings::known(Part part, std::int64_t index) const {
  const std::lock_guard lock(mutex_);
  const auto found = seen_.find({part, index});
  return found == seen_.end() ? std::nullopt : std::optional(found->second != Seen::kNothingWrong);
}

ImageFindings::Seen ImageFindings::report(Part part, std::int64_t index) {
  const std::lock_guard lock(mutex_);
  const auto found = seen_.find({part, index});
  if (found == seen_.end()) return Seen::kNothingWrong;
  const Seen seen = found->second;
  if (seen == Seen::kUnexpected) found->second = Seen::kReported;
  return seen;
}

bool SubjectWatch::see(Part part, std::int64_t index, const Image& picture) {
  if (const auto known = findings_.known(part, index)) return *known;
  const bool is_unlike = !subject_.looks_alike(picture);
  findings_.note(part, index, is_unlike);
  return is_unlike;
}

}  // namespace stages
