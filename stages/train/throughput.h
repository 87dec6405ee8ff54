#pragma once

#include <cstdint>
#include <deque>

namespace stages {

/// Samples a second over the latest steps: at most sixteen of them, so that the number follows a change.
class Throughput {
 public:
  /// `samples` are done at `seconds` on a clock that only goes forward. The first call starts the measurement.
  void add(double seconds, std::int64_t samples);
  /// 0 while unknown.
  double per_second() const;
  void restart() { marks_.clear(); }

 private:
  struct Mark {
    double seconds;
    std::int64_t samples;
  };
  std::deque<Mark> marks_;
};

}  // namespace stages
