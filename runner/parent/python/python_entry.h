#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runner/parent/schema/schema.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/graph/graph.h"

namespace runner {

/// Python code that an option `entry` names: an attribute of a module that is installed, or of a
/// file.
///
///   timm:create_model    my_net.py:make    nets/my_net.py:Net.small
struct PythonEntry {
  std::string module;     ///< "timm.models"; empty: it names a file
  std::string file;       ///< "nets/my_net.py", as written; empty: it names a module
  std::string attribute;  ///< "create_model", "Net.small"

  /// The package that holds the module: "timm".
  std::string_view top() const { return std::string_view(module).substr(0, module.find('.')); }
};

/// Reads the text of an entry. Its error has no place.
Result<PythonEntry> python_entry(const std::string& text);

/// True for the name of a module, such as "timm.models".
bool is_module_name(std::string_view text);

/// An entry and where a recipe writes it.
struct PlacedEntry {
  std::string text;
  std::string pointer;  ///< "/model/entry"
  Location where;
  std::vector<std::string> nodes;  ///< the ids of the nodes that run it
};

/// The entries of a graph whose kinds run Python code (x-python), each once, in the order of the
/// nodes.
std::vector<PlacedEntry> python_entries(const Graph& graph, const SchemaSet& schemas);

}  // namespace runner
