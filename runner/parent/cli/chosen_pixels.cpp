#include "runner/parent/cli/chosen_pixels.h"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "runner/parent/cli/graph_worker.h"
#include "runner/parent/cli/weights_source.h"
#include "runner/parent/compile/network_pixels.h"
#include "runner/parent/run/chosen_device.h"
#include "runner/parent/run/plan_request.h"
#include "runner/shared/text/printable.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;

/// A network, and the value that it specifies for an option.
struct FromNetwork {
  Json value;
  std::string node, source;
};

std::string list_text(const Json& numbers) {
  std::string text;
  for (const Json& number : numbers) text += (text.empty() ? "[" : ", ") + number.dump();
  return text + "]";
}

/// Returns the worker's description of each Python network (stages/worker/network_pixels.h).
Result<Json> ask_networks(Graph graph, const Value& recipe, const LogFlags& log, Console& console) {
  std::erase_if(graph.nodes, [](const Node& node) { return node.kind != "model.python"; });
  auto worker = worker_for(graph, recipe, shipped_schemas(), log);
  if (!worker) return worker.errors();
  ProgressDisplay display(console.err, standard_error_display(console.verbosity),
                          SecretTexts(recipe));
  const Json request = {
      {"protocol", kProtocolVersion}, {"request", "network_pixels"}, {"graph", to_json(graph)}};
  auto answer = ask_worker(without_gpus(*worker), request, shown_conversation(display, "model"));
  display.clear();
  if (!answer) return placed(answer.errors(), recipe);
  return std::move((*answer)["networks"]);
}

/// Returns the values that the networks specify for `option`; skips networks that specify none.
std::vector<FromNetwork> said_about(const PixelOption& option, const Json& networks) {
  std::vector<FromNetwork> said;
  for (const Json& network : networks) {
    const std::string node = network.value("node", ""), source = network.value("source", "");
    if (option.option == "image_size") {
      if (network.contains("image_size")) said.push_back({network["image_size"], node, source});
    } else if (network.contains("mean") && network.contains("std")) {
      said.push_back({{{"mean", network["mean"]}, {"std", network["std"]}}, node, source});
    }
  }
  return said;
}

Diagnostic unknown(const PixelOption& option) {
  const bool is_size = option.option == "image_size";
  return {ErrorCode::kOptionConflict, option.value->where, option.pointer(),
          option.option + " is auto, but the network does not say " +
              (is_size ? "for which image size it was made" : "how its images are normalized"),
          is_size ? "set it, such as " + option.key() + "=224"
                  : "set it, such as '" + option.key() +
                        "={mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225]}'"};
}

Diagnostic disagreement(const PixelOption& option, const FromNetwork& one,
                        const FromNetwork& other) {
  return {ErrorCode::kOptionConflict, option.value->where, option.pointer(),
          option.option + " is auto, but the networks differ: it is " + one.value.dump() +
              " for '" + one.node + "' and " + other.value.dump() + " for '" + other.node + "'",
          "set " + option.key() + " to the value that all networks should use"};
}

}  // namespace

std::string ChosenPixels::override_text() const {
  const Json json = to_json(value);
  return stage + "." + option + "=" +
         (json.is_object()
              ? "{mean: " + list_text(json["mean"]) + ", std: " + list_text(json["std"]) + "}"
              : json.dump());
}

Result<std::vector<ChosenPixels>> chosen_pixels(const Recipe& recipe, const Graph& graph,
                                                const LogFlags& log, Console& console) {
  std::vector<ChosenPixels> chosen;
  const std::vector<PixelOption> wanted = pixels_from_network(recipe.resolved);
  if (wanted.empty()) return chosen;
  const auto networks = ask_networks(graph, recipe.resolved, log, console);
  if (!networks) return networks.errors();
  Diagnostics errors;
  for (const PixelOption& option : wanted) {
    const std::vector<FromNetwork> said = said_about(option, *networks);
    const auto other = std::ranges::find_if(
        said, [&](const FromNetwork& one) { return one.value != said.front().value; });
    if (said.empty()) {
      errors.push_back(unknown(option));
    } else if (other != said.end()) {
      errors.push_back(disagreement(option, said.front(), *other));
    } else {
      chosen.push_back({option.stage, option.option, from_json(said.front().value)});
      if (!console.is_quiet())
        console.err << option.option << ": auto is from " << printable(said.front().source) << ": "
                    << chosen.back().override_text() << std::endl;
    }
  }
  if (!errors.empty()) return errors;
  return chosen;
}

Result<PreparedRecipe> prepare_with_pixels(NamedRecipe& named,
                                           const std::optional<LaunchedRank>& launched,
                                           const LogFlags& log, Console& console) {
  auto prepared = prepare_launched(launched, named, shipped_schemas(), console.sources);
  if (!prepared) return prepared;
  const auto chosen = chosen_pixels(prepared->recipe, prepared->graph, log, console);
  if (!chosen) return chosen.errors();
  if (chosen->empty()) return prepared;
  for (const ChosenPixels& one : *chosen) named.overrides.push_back(one.override_text());
  return prepare_launched(launched, named, shipped_schemas(), console.sources);
}

}  // namespace runner
