#include "stages/train/early_stopping.h"

#include <cmath>

#include <nlohmann/json.hpp>

#include "runner/shared/value/json_fields.h"

namespace stages {

EarlyStopping::EarlyStopping(bool higher_is_better, std::optional<std::int64_t> patience,
                             double minimum_improvement)
    : higher_is_better_(higher_is_better),
      patience_(patience),
      minimum_improvement_(minimum_improvement) {}

bool EarlyStopping::observe(std::int64_t epoch, double value) {
  ++waited_;
  if (!std::isfinite(value)) return false;
  const double improvement = higher_is_better_ ? value - best_ : best_ - value;
  if (best_epoch_ && improvement <= minimum_improvement_) return false;
  best_epoch_ = epoch;
  best_ = value;
  waited_ = 0;
  return true;
}

std::string EarlyStopping::reason(const std::string& monitor) const {
  if (is_content_) return "the accuracy on the validation data is high enough";
  return "no better validation " + monitor + " since epoch " +
         std::to_string(best_epoch_.value_or(0));
}

nlohmann::json EarlyStopping::state() const {
  return {{"best_epoch", best_epoch_ ? nlohmann::json(*best_epoch_) : nlohmann::json()},
          {"best", best_},
          {"waited", waited_},
          {"content", is_content_}};
}

void EarlyStopping::load_state(const nlohmann::json& state) {
  const runner::JsonFields fields(state, "the early stopping's state");
  const bool has_best = !fields.at("best_epoch").is_null();
  best_epoch_ = has_best ? std::optional(fields.count("best_epoch")) : std::nullopt;
  best_ = fields.number("best");
  waited_ = fields.count("waited");
  is_content_ = state.contains("content") && fields.flag("content");  // older states lack
                                                                      // this field
}

}  // namespace stages
