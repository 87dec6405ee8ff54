#include "stages/checkpoint/training_state.h"

#include <cmath>
#include <stdexcept>
#include <utility>

#include <nlohmann/json.hpp>

#include "runner/value/json_fields.h"

namespace stages {
namespace {

using nlohmann::json;

constexpr std::pair<const char*, std::int64_t TrainingState::*> kCounts[] = {{"step", &TrainingState::step},
                                                                             {"epoch", &TrainingState::epoch},
                                                                             {"batch", &TrainingState::batch},
                                                                             {"metrics", &TrainingState::metrics},
                                                                             {"threads", &TrainingState::threads}};
constexpr std::pair<const char*, json TrainingState::*> kParts[] = {
    {"scaler", &TrainingState::scaler}, {"schedule", &TrainingState::schedule},
    {"random", &TrainingState::random}, {"stopping", &TrainingState::stopping},
    {"plan", &TrainingState::plan},     {"epoch_so_far", &TrainingState::epoch_so_far}};

void require_finite(const json& value, const std::string& place) {
  if (value.is_number_float() && !std::isfinite(value.get<double>())) {
    throw std::invalid_argument("the training's state holds a number that is not finite: " + place);
  }
  if (!value.is_structured()) return;
  for (const auto& [key, item] : value.items()) require_finite(item, place + "/" + key);
}

}  // namespace

std::string state_json(const TrainingState& state) {
  json document;
  for (const auto& [key, value] : kCounts) document[key] = state.*value;
  for (const auto& [key, part] : kParts) document[key] = state.*part;
  document["seed"] = state.seed;
  document["recipe_hash"] = state.recipe_hash;
  document["metric"] = state.metric ? json(*state.metric) : json();
  require_finite(document, "");
  return document.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

TrainingState state_from_json(std::string_view text) {
  const json document = json::parse(text, nullptr, false);
  const runner::JsonFields fields(document, "its state.json");
  TrainingState state;
  for (const auto& [key, value] : kCounts) state.*value = fields.count(key);
  for (const auto& [key, part] : kParts) state.*part = fields.at(key).is_null() ? json() : fields.object(key);
  state.seed = fields.seed("seed");
  state.recipe_hash = fields.text("recipe_hash");
  if (!fields.at("metric").is_null()) state.metric = fields.number("metric");
  return state;
}

}  // namespace stages
