#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runner/parent/python/python_entry.h"
#include "runner/parent/python/trusted_code.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/graph/graph.h"

namespace runner {

/// The folders searched for a recipe's code.
struct CodeFolders {
  std::filesystem::path working;  ///< base of relative files; empty: the current folder
  std::filesystem::path recipe;   ///< the folder of the recipe's file; empty: the current folder
};

/// Adds to `graph` the code named by its `entries`, if the user has trusted all of it: each file
/// named and, for a package, each Python file in it. Both folders are searched for a module first,
/// since one found there would be imported instead of the installed one. Every other trusted file
/// below these folders is also added to PythonCode::files, since the code may import those, but no
/// other files there. PythonCode::folders is set to the folders, or left empty if no file is named,
/// because installed modules do not need them.
///
/// Errors are reported at the entries: kUntrustedCode for code that was never trusted or has
/// changed since, kMissingFile, and kBadPattern for text that is not a valid entry.
Diagnostics allow_code(Graph& graph, const std::vector<PlacedEntry>& entries,
                       const CodeFolders& folders, const TrustedCode& trusted);

/// Returns the command that trusts `path`, as typed in the current folder.
std::string trust_command(const std::filesystem::path& path);

}  // namespace runner
