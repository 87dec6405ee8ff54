#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "runner/shared/error/diagnostic.h"
#include "runner/shared/stage/determinism.h"
#include "runner/shared/stage/stage.h"
#include "runner/shared/value/value.h"

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
  /// The options that bear on the result, as records have them (node_key.h); nullopt: all of
  /// `options`.
  std::optional<Value> key_options = {};
};

/// A recipe compiled (compile.h): nodes in an order in which they can run (as written, as far as
/// edges allow). A run goes through them in another one, which takes less memory (run_order.h).
struct Graph {
  std::string recipe;  ///< its name
  std::uint64_t seed = 0;
  std::optional<int> threads;
  std::string device;
  std::vector<Node> nodes;
  std::string recipe_hash = {};  ///< of the resolved recipe; recipe.h
  Determinism determinism = Determinism::kStrict;
  std::string working_folder =
      {};  ///< where relative paths in options stand; empty: in the current one
};

/// What the worker is handed; graph_from_json throws std::runtime_error on anything else.
nlohmann::ordered_json to_json(const Graph& graph);
Graph graph_from_json(const nlohmann::ordered_json& json);

/// The part of `graph` needed to run the node or stage `name`; an error when there is none of that
/// name.
Result<Graph> only(const Graph& graph, const std::string& name);

/// The same for a node that has been trained: without what it takes in of data, and what that alone
/// needs.
Result<Graph> only_without_data(Graph graph, const std::string& name);

/// For each node a SHA-256, in hexadecimal, of all that its result follows from: kind, options,
/// seed and the keys of what it takes in. Two nodes of the same key have the same result, as far as
/// data and program are the same.
std::vector<std::string> node_keys(const Graph& graph);

}  // namespace runner
