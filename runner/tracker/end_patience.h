#pragma once

#include <chrono>
#include <optional>

namespace runner {

/// How long a server may take once the run has ended.
struct EndLimits {
  std::chrono::milliseconds everything{0};  ///< for everything not yet sent; 0: there are no limits
  /// For each response; a quarter of that if the server did not respond to the previous request.
  std::chrono::milliseconds answer{0};
};

/// Decides how long a server may take once the run has ended, so that a server that does not
/// respond does not delay the end of the run. For a request that is pending when the run ends, the
/// time since it was sent counts.
class EndPatience {
 public:
  using Time = std::chrono::steady_clock::time_point;

  enum class Verdict { kWait, kSilent, kLate };

  explicit EndPatience(EndLimits limits = {}) : limits_(limits) {}

  /// ask() must be called when a request is sent, and answered() when it has ended, unless it was
  /// canceled.
  void ask(Time now) { asked_ = now; }
  void answered(bool has_answered);
  /// Must be called once, when the run ends.
  void end(Time now) { ended_ = now; }

  /// Returns kWait if the tracker may go on. Before the end of the run, it always may.
  Verdict verdict(Time now) const;

 private:
  EndLimits limits_;
  std::optional<Time> asked_;  // nullopt: no request is waiting
  std::optional<Time> ended_;
  bool was_silent_ = false;  // the last request got no response
};

}  // namespace runner
