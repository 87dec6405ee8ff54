#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runner/parent/python/python_entry.h"
#include "runner/parent/python/trusted_code.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/graph/graph.h"

namespace runner {

/// The folders that are searched for a recipe's code.
struct CodeFolders {
  std::filesystem::path working;  ///< base of relative files; empty: the current folder
  std::filesystem::path recipe;   ///< of the recipe's file; empty: the current folder
};

/// Adds to `graph` the code that its `entries` name, if the user has trusted all of it: each file
/// that they name and, for a package, each Python file in it. A module is searched for in both
/// folders first, since one found there would be imported instead of the installed one.
/// PythonCode::files also receives every other trusted file below these folders, since the code may
/// import those, but no other files there. PythonCode::folders receives the folders, or none if no
/// file is named, because an installed module does not need them.
///
/// Errors are located at the entries: kUntrustedCode for code that was never trusted or has changed
/// since, kMissingFile, and kBadPattern for text that is not an entry.
Diagnostics allow_code(Graph& graph, const std::vector<PlacedEntry>& entries,
                       const CodeFolders& folders, const TrustedCode& trusted);

/// Returns the command that trusts `path`, as typed in the current folder.
std::string trust_command(const std::filesystem::path& path);

}  // namespace runner
