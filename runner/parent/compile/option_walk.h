#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "runner/parent/schema/rule.h"
#include "runner/parent/schema/schema.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/graph/graph.h"

namespace runner {

struct SchemaNode;

/// An option of the stage wired to an input, such as "inputs.model.patch_size". "inputs.model.kind"
/// is the kind of that stage, and "inputs.checkpoint.inputs.model.kind" is the kind of the trained
/// model.
struct WiredOption {
  const Node* node = nullptr;  ///< null if nothing is wired to the port
  std::string option = {};     ///< empty for the node itself
};

/// In a condition, "inputs.PORT.KEY" is an option of the stage wired to an input port of the stage
/// that the condition belongs to.
inline constexpr std::string_view kInputsPrefix = "inputs.";

/// A mapping among a node's options, with the schema that describes it.
struct OptionMapping {
  const Node& node;
  const Value& options;
  const SchemaNode& schema;
  const std::string& pointer;  ///< its location in the recipe, "/train/optimizer"
  /// Finds an option of the mapping. "parent." leads to the enclosing mapping. "inputs.PORT" is
  /// "wired" if something is wired to the node's port, else null, and "inputs.PORT.OPTION" is an
  /// option of the wired stage (WiredOption).
  const OptionLookup& look;
};

/// Calls `visit` for each mapping of each node that is described by a schema, outer mappings first.
void visit_options(const Graph& graph, const SchemaSet& schemas,
                   const std::function<void(const OptionMapping&)>& visit);

/// Calls `visit` for `options`, a mapping at `pointer` in the recipe that does not belong to a
/// stage, and for the mappings inside it.
void visit_options_of(const Value& options, const SchemaNode& schema, const std::string& pointer,
                      const std::function<void(const OptionMapping&)>& visit);

/// Returns the option to which `path`, which begins with kInputsPrefix, leads from `node`.
WiredOption wired_option(const Graph& graph, const Node& node, std::string_view path);

/// Returns a warning, with the reason, for each option set by the user that has no effect according
/// to the schema's x-effective-when, and for `python` in a recipe without Python code. An option
/// that a file sets to its default counts as not set.
Diagnostics options_without_effect(const Value& resolved, const Graph& graph,
                                   const SchemaSet& schemas);

/// Returns the remarks (x-remark) for the options that are set, without duplicates. They are for
/// readers of the results, such as "the backbone's weights were trained on ImageNet".
std::vector<std::string> remarks_on_results(const Graph& graph, const SchemaSet& schemas);

}  // namespace runner
