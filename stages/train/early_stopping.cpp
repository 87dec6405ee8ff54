#include "stages/train/early_stopping.h"

#include <cmath>
#include <stdexcept>
#include <string>

#include <nlohmann/json.hpp>

namespace stages {

EarlyStopping::EarlyStopping(bool higher_is_better, std::optional<std::int64_t> patience)
    : higher_is_better_(higher_is_better), patience_(patience) {}

bool EarlyStopping::observe(std::int64_t epoch, double value) {
  ++waited_;
  if (!std::isfinite(value)) return false;
  if (best_epoch_ && (higher_is_better_ ? value <= best_ : value >= best_)) return false;
  best_epoch_ = epoch;
  best_ = value;
  waited_ = 0;
  return true;
}

nlohmann::json EarlyStopping::state() const {
  return {{"best_epoch", best_epoch_ ? nlohmann::json(*best_epoch_) : nlohmann::json()},
          {"best", best_},
          {"waited", waited_}};
}

void EarlyStopping::load_state(const nlohmann::json& state) {
  const auto member = [&](const char* name) -> const nlohmann::json& {
    if (state.is_object() && state.contains(name)) return state[name];
    throw std::invalid_argument("the early stopping's state has no '" + std::string(name) + "'");
  };
  const auto require = [](bool is_right, const char* name, const char* what) {
    if (!is_right)
      throw std::invalid_argument("the early stopping's state has a '" + std::string(name) + "' that is no " + what);
  };
  const nlohmann::json& best_epoch = member("best_epoch");
  const nlohmann::json& best = member("best");
  const nlohmann::json& waited = member("waited");
  require(best_epoch.is_null() || best_epoch.is_number_unsigned(), "best_epoch", "epoch");
  require(best.is_number(), "best", "number");
  require(waited.is_number_unsigned(), "waited", "count");
  best_epoch_ = best_epoch.is_null() ? std::nullopt : std::optional(best_epoch.get<std::int64_t>());
  best_ = best.get<double>();
  waited_ = waited.get<std::int64_t>();
}

}  // namespace stages
