#pragma once

#include <cstdint>
#include <optional>

namespace stages {

/// Which epoch was best by one number, and when waiting for a better one has taken long enough.
class EarlyStopping {
 public:
  /// `patience`: epochs without a better one after which to stop; nullopt: never.
  EarlyStopping(bool higher_is_better, std::optional<std::int64_t> patience);

  /// What `epoch` reached. True if that is better than every epoch before; a value that is not a number never is.
  bool observe(std::int64_t epoch, double value);

  /// True if `epoch` is the last that patience allows.
  bool exhausted(std::int64_t epoch) const;

  /// nullopt until an epoch has been observed with a finite value.
  std::optional<std::int64_t> best_epoch() const { return best_epoch_; }
  double best() const { return best_; }

  /// Continues from what another has observed.
  void restore(std::optional<std::int64_t> best_epoch, double best) {
    best_epoch_ = best_epoch;
    best_ = best;
  }

 private:
  const bool higher_is_better_;
  const std::optional<std::int64_t> patience_;
  std::optional<std::int64_t> best_epoch_;
  double best_ = 0;
};

}  // namespace stages
