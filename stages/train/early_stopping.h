#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace stages {

/// Tracks the epoch with the best value of one metric, and stops after too many validations without
/// improvement. Epochs without a validation do not count.
class EarlyStopping {
 public:
  /// `patience` is the number of consecutive validations without improvement after which to stop;
  /// nullopt: never stop. For patience, an improvement counts only if it beats the last one that
  /// counted by more than `minimum_improvement`.
  EarlyStopping(bool higher_is_better, std::optional<std::int64_t> patience,
                double minimum_improvement = 0);

  /// Records the validation value of `epoch`. Returns true if it is better than all earlier values;
  /// NaN never is.
  bool observe(std::int64_t epoch, double value);

  /// Records that a validation was good enough to stop.
  void be_content() { is_content_ = true; }

  /// True if patience has run out, or a validation was good enough.
  bool exhausted() const { return is_content_ || (patience_ && waited_ >= *patience_); }
  bool is_content() const { return is_content_; }
  /// Returns the reason for stopping, as a clause; `monitor` is the name of the monitored value.
  std::string reason(const std::string& monitor) const;

  /// Returns the best epoch; nullopt until an epoch has a finite value.
  std::optional<std::int64_t> best_epoch() const { return best_epoch_; }
  double best() const { return best_; }

  /// The state needed to continue as if never interrupted. load_state() throws std::runtime_error
  /// for anything that state() did not return.
  nlohmann::json state() const;
  void load_state(const nlohmann::json& state);

 private:
  const bool higher_is_better_;
  const std::optional<std::int64_t> patience_;
  const double minimum_improvement_;
  std::optional<std::int64_t> best_epoch_;
  double best_ = 0;
  std::optional<std::int64_t> counted_epoch_;  // epoch of the last improvement that counted
  double counted_ = 0;                         // its value
  std::int64_t waited_ = 0;                    // validations since then, or since the start
  bool is_content_ = false;
};

}  // namespace stages
