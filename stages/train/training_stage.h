#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace stages {

/// Mimics a published program's handling of out-of-memory errors (on_oom_policy: legacy), for
/// comparison. It halves the batch down to a smallest size, then moves to the next GPU with the
/// whole batch if there are several, or else to the CPU. One retry count covers all of that, and
/// one retry fewer is granted than it says. The training restarts from the beginning each time.
class HalvingRetries {
 public:
  struct Options {
    std::int64_t batch_size = 0;  ///< in the recipe
    std::int64_t min_batch_size = 1;
    std::int64_t max_retries = 0;
    std::int64_t gpus = 0;
  };
  /// `count` retries have been made, on other devices.
  explicit HalvingRetries(const Options& options, std::int64_t count = 0)
      : options_(options), batch_size_(options.batch_size), count_(count) {}

  struct Attempt {
    std::int64_t batch_size = 0;
    std::string device;  ///< "cuda:1" or "cpu"
    bool operator==(const Attempt&) const = default;
  };
  /// The next attempt after memory ran out on `device`; nullopt: give up.
  std::optional<Attempt> after(const std::string& device);

  std::int64_t count() const { return count_; }

 private:
  const Options options_;
  std::int64_t batch_size_;
  std::int64_t count_;
};

}  // namespace stages
