#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runner/parent/python/python_entry.h"
#include "runner/parent/python/trusted_code.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/graph/graph.h"

namespace runner {

/// The folders in which the code of a recipe is found.
struct CodeFolders {
  std::filesystem::path working;  ///< relative files start here; empty: the current folder
  std::filesystem::path recipe;   ///< that of the recipe's file; empty: the current folder
};

/// Gives `graph` the code that its `entries` name, if the user has trusted all of it: each file
/// that they name and, for a package, each Python file below it. A module is looked for in both
/// folders first, since one that lies there would be run in place of the installed one.
/// PythonCode::files also gets every other trusted file below these folders, which the code may
/// import; nothing else there may be. PythonCode::folders gets the folders, none if no file is
/// named: an installed module has no business in them.
///
/// Errors have the places of the entries: kUntrustedCode for what was never trusted or has changed
/// since, kMissingFile, and kBadPattern for what is no entry.
Diagnostics allow_code(Graph& graph, const std::vector<PlacedEntry>& entries,
                       const CodeFolders& folders, const TrustedCode& trusted);

/// The command that trusts `path`, as it is typed in the current folder.
std::string trust_command(const std::filesystem::path& path);

}  // namespace runner
