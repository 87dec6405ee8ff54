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

/// An option of the stage that is wired to an input: what "inputs.model.patch_size" names. "kind"
/// is that of the stage, and "inputs.checkpoint.inputs.model.kind" that of the model which was
/// trained.
struct WiredOption {
  const Node* node = nullptr;  ///< null: nothing is wired to the port
  std::string option = {};     ///< empty: the node itself
};

/// Names of options with which a condition looks at the stages that are wired to its own.
inline constexpr std::string_view kInputsPrefix = "inputs.";

/// A mapping among the options of a node, beside a schema that describes it.
struct OptionMapping {
  const Node& node;
  const Value& options;
  const SchemaNode& schema;
  const std::string& pointer;  ///< where it stands in the recipe, "/train/optimizer"
  /// Finds an option of the mapping. "parent." leads to the mapping around it. "inputs.PORT" is
  /// "wired" where something is wired to the node's port, else null, and "inputs.PORT.OPTION" is an
  /// option of the stage that is (WiredOption).
  const OptionLookup& look;
};

/// Calls `visit` for each mapping of each node that a schema describes, outer ones first.
void visit_options(const Graph& graph, const SchemaSet& schemas,
                   const std::function<void(const OptionMapping&)>& visit);

/// The same for one mapping that is no stage's, at `pointer` of the recipe.
void visit_options_of(const Value& options, const SchemaNode& schema, const std::string& pointer,
                      const std::function<void(const OptionMapping&)>& visit);

/// What `path`, which begins with kInputsPrefix, names to `node`.
WiredOption wired_option(const Graph& graph, const Node& node, std::string_view path);

/// Warnings of the options that somebody has written and that do nothing here, with the reason: by
/// what a schema's x-effective-when says of them, and by overrides of which a later one sets the
/// same key. In a file an option that has its default counts as not written.
Diagnostics options_without_effect(const Value& resolved, const Graph& graph,
                                   const SchemaSet& schemas);

}  // namespace runner
