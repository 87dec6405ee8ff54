#include "runner/tracker/end_patience.h"

namespace runner {

void EndPatience::answered(bool has_answered) {
  asked_.reset();
  was_silent_ = !has_answered;
}

EndPatience::Verdict EndPatience::verdict(Time now) const {
  if (!ended_ || limits_.everything.count() == 0) return Verdict::kWait;
  const std::chrono::milliseconds silence = was_silent_ ? limits_.answer / 4 : limits_.answer;
  if (asked_ && now - *asked_ >= silence) return Verdict::kSilent;
  return now - *ended_ >= limits_.everything ? Verdict::kLate : Verdict::kWait;
}

}  // namespace runner
