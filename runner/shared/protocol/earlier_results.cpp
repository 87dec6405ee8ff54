#include "runner/shared/protocol/earlier_results.h"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

#include <nlohmann/json.hpp>

#include "runner/shared/value/json_fields.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;
using WeightsChoice = CheckpointSource::Choice;
using Which = ReuseOptions::Which;

constexpr std::array<std::pair<std::string_view, WeightsChoice>, 4> kChoices = {
    {{"kept", WeightsChoice::kKept},
     {"best", WeightsChoice::kBest},
     {"latest", WeightsChoice::kLatest},
     {"this", WeightsChoice::kThis}}};

}  // namespace

std::string_view name(WeightsChoice choice) {
  return std::ranges::find(kChoices, choice, [](const auto& item) { return item.second; })->first;
}

Json to_json(const CheckpointSources& nodes) {
  Json json = Json::object();
  for (const auto& [id, weights] : nodes) {
    json[id] = {{"folder", weights.folder.string()}, {"choice", name(weights.choice)}};
    if (weights.averaged) json[id]["weights"] = *weights.averaged ? "averaged" : "trained";
  }
  return json;
}

CheckpointSources checkpoint_sources_from_json(const Json& json) {
  if (!json.is_object()) throw std::runtime_error("the checkpoints are not an object");
  CheckpointSources nodes;
  for (const auto& [id, weights] : json.items()) {
    const JsonFields fields(weights, "a checkpoint");
    fields.only({"folder", "choice", "weights"});
    const std::string word = fields.text("choice");
    const auto* const choice =
        std::ranges::find(kChoices, word, [](const auto& item) { return item.first; });
    if (choice == kChoices.end()) throw std::runtime_error("a checkpoint has an unknown 'choice'");
    nodes[id] = {fields.text("folder"), choice->second};
    if (!weights.contains("weights")) continue;
    const std::string which = fields.text("weights");
    if (which != "averaged" && which != "trained")
      throw std::runtime_error("a checkpoint has unknown 'weights'");
    nodes[id].averaged = which == "averaged";
  }
  return nodes;
}

std::string_view name(Which which) {
  constexpr std::array<std::string_view, 3> kNames = {"none", "cacheable", "all"};
  return kNames[static_cast<std::size_t>(which)];
}

Which reuse_named(std::string_view text) {
  for (const Which which : {Which::kNone, Which::kCacheable, Which::kAll}) {
    if (name(which) == text) return which;
  }
  throw std::runtime_error("its 'reuse'");
}

}  // namespace runner
