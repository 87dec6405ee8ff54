#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "runner/shared/error/diagnostic.h"
#include "runner/shared/graph/python_code.h"
#include "runner/shared/stage/determinism.h"
#include "runner/shared/stage/stage.h"
#include "runner/shared/value/value.h"

namespace runner {

/// An edge from one output to one input.
struct Edge {
  std::string input;   ///< port of the node that has this edge
  std::size_t from;    ///< index of the producing node; always smaller than the consumer's
  std::string output;  ///< port of the producing node
  ArtifactType type;
  bool optional = false;  ///< the input is optional, so the producer may omit the output
};

/// A stage, or one item of a stage with `foreach`.
struct Node {
  std::string id;  ///< "train" or "train.0-1"; a valid file name
  std::string stage;
  std::string kind;
  Value options;        ///< with ${item.*} filled in; excludes kind, name, inputs and foreach
  std::string pointer;  ///< the stage's location in the recipe, "/train"
  std::vector<Edge> inputs;
  std::uint64_t seed = 0;
  int version = 1;         ///< version of the kind
  bool cacheable = false;  ///< the kind's results are reused by default
  std::string title = {};  ///< for messages: "train", or "train[pair=0-1]"
  /// The options that affect the result, as stored in records (node_document.h); nullopt if all of
  /// them do.
  std::optional<Value> key_options = {};
  std::string code = {};  ///< SHA-256 of the Python files named by its entries; empty: none
};

/// A compiled recipe (compile.h). Its nodes are in a valid execution order: that of the recipe if
/// the edges allow it. A run uses a different order, which needs less memory (run_order.h).
struct Graph {
  std::string recipe;  ///< the recipe's name
  std::uint64_t seed = 0;
  std::optional<int> threads;
  std::string device;
  int ranks = 1;  ///< processes that train together (device.count)
  std::vector<Node> nodes;
  std::string recipe_hash = {};  ///< hash of the resolved recipe; see recipe.h
  Determinism determinism = Determinism::kStrict;
  /// How many seconds a rank waits for another one (device.collective_timeout_seconds).
  std::int64_t collective_timeout = 1800;
  std::string working_folder =
      {};                  ///< base of relative paths in options; empty: the current folder
  PythonCode python = {};  ///< the worker does not receive `entries`
  /// Remarks shown with the results (`x-remark` in the schemas). The worker does not receive them.
  std::vector<std::string> remarks = {};
};

/// Converts to and from the JSON that the worker receives. graph_from_json() throws
/// std::runtime_error for any other JSON.
nlohmann::ordered_json to_json(const Graph& graph);
Graph graph_from_json(const nlohmann::ordered_json& json);

/// Returns the part of `graph` needed to run its training nodes; this is what ranks other than rank
/// 0 run.
Graph only_trainings(const Graph& graph);

/// Returns the part of `graph` needed to run the node or stage `name`; an error if there is no such
/// name.
Result<Graph> only(const Graph& graph, const std::string& name);

/// Returns the part needed to run the node or stage `name` when it is already trained. Leaves out
/// its data inputs and the nodes needed only for them.
Result<Graph> only_without_data(Graph graph, const std::string& name);

/// Returns, for each node, the hexadecimal SHA-256 of everything its result depends on: kind,
/// options, seed and the keys of its inputs. Two nodes with the same key have the same result if
/// the data and the program are the same.
std::vector<std::string> node_keys(const Graph& graph);

}  // namespace runner
