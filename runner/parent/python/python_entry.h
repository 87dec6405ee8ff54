#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runner/parent/schema/schema.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/graph/graph.h"

namespace runner {

/// Python code named by an `entry` option: an attribute of an installed module or of a file.
///
///   timm:create_model    my_net.py:make    nets/my_net.py:Net.small
struct PythonEntry {
  std::string module;     ///< "timm.models"; empty if the entry specifies a file
  std::string file;       ///< "nets/my_net.py", as written; empty if the entry specifies a module
  std::string attribute;  ///< "create_model", "Net.small"

  /// Returns the top-level package of the module: "timm".
  std::string_view top() const { return std::string_view(module).substr(0, module.find('.')); }
};

/// Parses the text of an entry. Errors have no location.
Result<PythonEntry> python_entry(const std::string& text);

/// True for a module name such as "timm.models".
bool is_module_name(std::string_view text);

/// An entry and its location in the recipe.
struct PlacedEntry {
  std::string text;
  std::string pointer;  ///< "/model/entry", "/model/towers/tokenizer/entry"
  Location where;
  std::vector<std::string> nodes;  ///< the ids of the nodes that run it
};

/// Returns the Python code that the nodes of the graph refer to in the options listed by their
/// kinds (x-python), without duplicates, in node order.
std::vector<PlacedEntry> python_entries(const Graph& graph, const SchemaSet& schemas);

}  // namespace runner
