#include "stages/train/early_stopping.h"

#include <cmath>

namespace stages {

EarlyStopping::EarlyStopping(bool higher_is_better, std::optional<std::int64_t> patience)
    : higher_is_better_(higher_is_better), patience_(patience) {}

bool EarlyStopping::observe(std::int64_t epoch, double value) {
  if (!std::isfinite(value)) return false;
  if (best_epoch_ && (higher_is_better_ ? value <= best_ : value >= best_)) return false;
  best_epoch_ = epoch;
  best_ = value;
  return true;
}

bool EarlyStopping::exhausted(std::int64_t epoch) const {
  return patience_ && epoch - best_epoch_.value_or(0) >= *patience_;
}

}  // namespace stages
