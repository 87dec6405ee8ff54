#pragma once

#include <chrono>
#include <optional>

namespace runner {

/// How long a server may take once the run has ended.
struct EndLimits {
  std::chrono::milliseconds everything{0};  ///< for all that is left; 0: there are no limits
  /// For each response. A quarter of it if the server did not respond to the request before.
  std::chrono::milliseconds answer{0};
};

/// Decides how long a server may take once the run has ended, so that a server that does not
/// respond does not delay the end of the run. A request that is waiting when the run ends counts
/// from its beginning.
class EndPatience {
 public:
  using Time = std::chrono::steady_clock::time_point;

  enum class Verdict { kWait, kSilent, kLate };

  explicit EndPatience(EndLimits limits = {}) : limits_(limits) {}

  /// Must be called when a request is sent, and with whether the server has responded. A request
  /// that was canceled remains without a response.
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
