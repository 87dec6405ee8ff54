#include "runner/parent/cli/chosen_pixels.h"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "runner/parent/cli/graph_worker.h"
#include "runner/parent/cli/weights_source.h"
#include "runner/parent/compile/missing_files.h"
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

/// Returns a section of options as in YAML, on one line.
std::string section_text(const Json& section) {
  std::string text;
  for (const auto& [key, value] : section.items()) {
    text += (text.empty() ? "{" : ", ") + key + ": ";
    text += value.is_array()    ? list_text(value)
            : value.is_string() ? value.get<std::string>()
                                : value.dump();
  }
  return text + "}";
}

std::string pixels_text(const Json& value) {
  return value.is_object() ? section_text(value) : value.dump();
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
    if (option.option == "normalize") {
      if (network.contains("mean") && network.contains("std"))
        said.push_back({{{"mean", network["mean"]}, {"std", network["std"]}}, node, source});
    } else if (network.contains(option.option)) {
      said.push_back({network[option.option], node, source});
    }
  }
  return said;
}

Diagnostic unknown(const PixelOption& option) {
  std::string what = "how its images are normalized",
              such_as = '\'' + option.key() +
                        "={mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225]}'";
  if (option.option == "image_size") {
    what = "for which image size it was made";
    such_as = option.key() + "=224";
  } else if (option.option == "resize") {
    what = "how its images are resized";
    such_as = '\'' + option.key() + "={interpolation: bicubic, crop_fraction: 0.875}'";
  }
  return {ErrorCode::kOptionConflict, option.value->where, option.pointer(),
          option.option + " is auto, but the network does not say " + what,
          "set it, such as " + such_as};
}

Diagnostic disagreement(const PixelOption& option, const FromNetwork& one,
                        const FromNetwork& other) {
  return {ErrorCode::kOptionConflict, option.value->where, option.pointer(),
          option.option + " is auto, but the networks differ: it is " + pixels_text(one.value) +
              " for '" + one.node + "' and " + pixels_text(other.value) + " for '" + other.node +
              "'",
          "set " + option.key() + " to the value that all networks should use"};
}

/// Returns a warning for each network with steps that the chosen `resize` cannot express.
Diagnostics lost_steps(const PixelOption& resize, const Json& networks) {
  Diagnostics warnings;
  for (const Json& network : networks) {
    std::string list;
    for (const Json& one : network.value("lost", Json::array()))
      list += (list.empty() ? "" : ", ") + one.get<std::string>();
    if (list.empty()) continue;
    warnings.push_back({.code = ErrorCode::kOptionConflict,
                        .where = resize.value->where,
                        .pointer = resize.pointer(),
                        .message = printable(network.value("source", "")) + " specifies " +
                                   printable(list) + ", which resize cannot do",
                        .help = "the network sees slightly different images than in its own "
                                "library; accuracy may be lower than published",
                        .severity = Severity::kWarning});
  }
  return warnings;
}

}  // namespace

std::string ChosenPixels::override_text() const {
  return stage + "." + option + "=" + pixels_text(to_json(value));
}

Result<std::vector<ChosenPixels>> chosen_pixels(const Recipe& recipe, const Graph& graph,
                                                const LogFlags& log, Console& console) {
  std::vector<ChosenPixels> chosen;
  const std::vector<PixelOption> wanted = pixels_from_network(recipe.resolved);
  if (wanted.empty()) return chosen;
  // Python takes seconds to start, so files that are missing are reported first.
  if (Diagnostics missing = missing_files(graph, shipped_schemas()); !missing.empty())
    return missing;
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
      if (option.option == "resize") warn(console, lost_steps(option, *networks));
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
