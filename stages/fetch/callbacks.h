#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "runner/shared/stage/run_context.h"

namespace stages {

/// What fetching tells and asks; any member may be empty.
struct FetchCallbacks {
  std::function<void(const runner::Progress&)> progress;
  std::function<void(std::string_view line)> say;
  std::function<bool()> cancelled;  ///< true once it is to stop
};

/// Those of a running stage; `context` is borrowed.
FetchCallbacks callbacks_of(runner::RunContext& context);

/// Throws runner::Cancelled where it is to stop.
void stop_if_cancelled(const FetchCallbacks& callbacks);

/// Tells how far a phase is, at most ten times a second, with its speed and the time left.
class ByteProgress {
 public:
  /// `callbacks` is borrowed. `all`: 0 where it is unknown.
  ByteProgress(const FetchCallbacks& callbacks, std::string phase, std::int64_t begin, std::int64_t all);
  /// `done` bytes by now.
  void at(std::int64_t done);
  void set_all(std::int64_t all) { all_ = all; }

 private:
  const FetchCallbacks& callbacks_;
  const std::string phase_;
  std::int64_t all_, told_bytes_;
  double told_seconds_, bytes_per_second_ = 0;
};

}  // namespace stages
