#pragma once

#include <cstdint>
#include <optional>

#include <nlohmann/json_fwd.hpp>

namespace stages {

/// Which epoch was best by one number, and when waiting for a better one has taken long enough. An
/// epoch that is not validated is not waited for.
class EarlyStopping {
 public:
  /// `patience`: validations in a row without a better one after which to stop; nullopt: never.
  /// A value that is better by no more than `minimum_improvement` counts as no better.
  EarlyStopping(bool higher_is_better, std::optional<std::int64_t> patience,
                double minimum_improvement = 0);

  /// What the validation of `epoch` gave. True if that is better than every validation before; a
  /// value that is not a number never is.
  bool observe(std::int64_t epoch, double value);

  /// A validation was good enough: there is nothing to wait for.
  void be_content() { is_content_ = true; }

  /// True if the latest validation was the last that patience allows, or one was good enough.
  bool exhausted() const { return is_content_ || (patience_ && waited_ >= *patience_); }
  bool is_content() const { return is_content_; }

  /// nullopt until an epoch has been observed with a finite value.
  std::optional<std::int64_t> best_epoch() const { return best_epoch_; }
  double best() const { return best_; }

  /// All that must be saved to continue as if never interrupted. load_state() throws
  /// std::runtime_error for anything else.
  nlohmann::json state() const;
  void load_state(const nlohmann::json& state);

 private:
  const bool higher_is_better_;
  const std::optional<std::int64_t> patience_;
  const double minimum_improvement_;
  std::optional<std::int64_t> best_epoch_;
  double best_ = 0;
  std::int64_t waited_ = 0;  // validations since the best, or since the start
  bool is_content_ = false;
};

}  // namespace stages
