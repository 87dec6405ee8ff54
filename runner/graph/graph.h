#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "runner/graph/recipe.h"
#include "runner/error/result.h"
#include "runner/schema/schema.h"

namespace runner {

/// One output feeding one input.
struct Edge {
  std::string input;   ///< port of the node that holds this edge
  std::size_t from;    ///< index of the producing node; always smaller than the holder's
  std::string output;  ///< port of the producing node
  ArtifactType type;
  bool optional = false;  ///< the input may do without: the producer need not put it out
};

/// A stage, or one item of a stage with `foreach`.
struct Node {
  std::string id;  ///< "train" or "train.0-1"; a valid file name
  std::string stage;
  std::string kind;
  Value options;        ///< ${item.*} filled in; without kind, name, inputs and foreach
  std::string pointer;  ///< where the stage stands in the recipe, "/train"
  std::vector<Edge> inputs;
  std::uint64_t seed = 0;
  int version = 1;         ///< of the kind
  bool cacheable = false;  ///< the kind's results are reused by default
  std::string title = {};  ///< for people: "train", or "train[pair=0-1]"
  /// The options that bear on the result, as records have them (node_key.h); nullopt: all of `options`.
  std::optional<Value> key_options = {};
};

/// A recipe compiled: nodes in an order in which they can run (as written, as far as edges allow). A run goes through
/// them in another one, which takes less memory (run_order.h).
struct Graph {
  std::string recipe;  ///< its name
  std::uint64_t seed = 0;
  std::optional<int> threads;
  std::string device;
  std::vector<Node> nodes;
  std::string recipe_hash = {};  ///< of the resolved recipe; recipe.h
  Determinism determinism = Determinism::kStrict;
  std::string working_folder = {};  ///< where relative paths in options stand; empty: in the current one
};

/// Wires ports by type and name, expands foreach, sorts. Unwired, doubly wired and ill-typed ports, cycles and
/// unknown items are errors at their line; all at once, in source order. So are, in a graph that is sound, the rules
/// that it breaks.
Result<Graph> compile(const Recipe& recipe, const SchemaSet& schemas);

/// The same, whatever rules it breaks: for what an earlier version, which may have had fewer rules, has run already.
Result<Graph> compile_recorded(const Recipe& recipe, const SchemaSet& schemas);

/// What options must keep together and do not: the x-rules of schemas (broken_rules.h), and memory options that would
/// change a training's gradient (legality.h).
Diagnostics rules_broken_by(const Graph& graph, const SchemaSet& schemas);

/// What the worker is handed; graph_from_json throws std::runtime_error on anything else.
nlohmann::ordered_json to_json(const Graph& graph);
Graph graph_from_json(const nlohmann::ordered_json& json);

/// The part of `graph` needed to run the node or stage `name`; an error when there is none of that name.
Result<Graph> only(const Graph& graph, const std::string& name);

/// The same for a node that has been trained: without what it takes in of data, and what that alone needs.
Result<Graph> only_without_data(Graph graph, const std::string& name);

}  // namespace runner
