#include "stages/checkpoint/training_state.h"

#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

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

[[noreturn]] void refuse(const std::string& what) { throw std::invalid_argument("its state.json " + what); }

void require_finite(const json& value, const std::string& place) {
  if (value.is_number_float() && !std::isfinite(value.get<double>())) {
    throw std::invalid_argument("the training's state holds a number that is not finite: " + place);
  }
  if (!value.is_structured()) return;
  for (const auto& [key, item] : value.items()) require_finite(item, place + "/" + key);
}

const json& member(const json& document, const char* key) {
  const auto found = document.find(key);
  if (found == document.end()) refuse("has no '" + std::string(key) + "'");
  return *found;
}

std::int64_t count(const json& document, const char* key) {
  const json& value = member(document, key);
  const auto largest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > largest) {
    refuse("has a '" + std::string(key) + "' that is no count");
  }
  return value.get<std::int64_t>();
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
  if (!document.is_object()) refuse("is no JSON object");
  TrainingState state;
  for (const auto& [key, value] : kCounts) state.*value = count(document, key);
  for (const auto& [key, part] : kParts) {
    state.*part = member(document, key);
    if (!(state.*part).is_object() && !(state.*part).is_null())
      refuse("has a '" + std::string(key) + "' that is neither an object nor null");
  }
  const json& seed = member(document, "seed");
  const json& hash = member(document, "recipe_hash");
  const json& metric = member(document, "metric");
  if (!seed.is_number_unsigned()) refuse("has a 'seed' that is none");
  if (!hash.is_string()) refuse("has a 'recipe_hash' that is no text");
  if (!metric.is_null() && !metric.is_number()) refuse("has a 'metric' that is no number");
  state.seed = seed.get<std::uint64_t>();
  state.recipe_hash = hash.get<std::string>();
  if (metric.is_number()) state.metric = metric.get<double>();
  return state;
}

}  // namespace stages
