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
  const auto improvement = [&](double before) {
    return higher_is_better_ ? value - before : before - value;
  };
  if (!counted_epoch_ || improvement(counted_) > minimum_improvement_) {
    counted_epoch_ = epoch;
    counted_ = value;
    waited_ = 0;
  }
  if (best_epoch_ && improvement(best_) <= 0) return false;
  best_epoch_ = epoch;
  best_ = value;
  return true;
}

std::string EarlyStopping::reason(const std::string& monitor) const {
  if (is_content_) return "the accuracy on the validation data is high enough";
  return "no better validation " + monitor + " since epoch " +
         std::to_string(counted_epoch_.value_or(0));
}

nlohmann::json EarlyStopping::state() const {
  const auto or_null = [](const std::optional<std::int64_t>& epoch) {
    return epoch ? nlohmann::json(*epoch) : nlohmann::json();
  };
  return {{"best_epoch", or_null(best_epoch_)},
          {"best", best_},
          {"counted_epoch", or_null(counted_epoch_)},
          {"counted", counted_},
          {"waited", waited_},
          {"content", is_content_}};
}

void EarlyStopping::load_state(const nlohmann::json& state) {
  const runner::JsonFields fields(state, "the early-stopping state");
  const auto epoch = [&](const char* name) {
    return fields.at(name).is_null() ? std::nullopt : std::optional(fields.count(name));
  };
  best_epoch_ = epoch("best_epoch");
  best_ = fields.number("best");
  waited_ = fields.count("waited");
  // Older states lack these fields. In those, the best improvement was the last one that counted.
  const bool has_counted = state.contains("counted");
  counted_epoch_ = has_counted ? epoch("counted_epoch") : best_epoch_;
  counted_ = has_counted ? fields.number("counted") : best_;
  is_content_ = state.contains("content") && fields.flag("content");
}

}  // namespace stages
