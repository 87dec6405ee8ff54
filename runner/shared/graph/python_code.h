#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace runner {

/// A Python file named by an entry of a recipe.
struct PythonFile {
  std::string pointer;  ///< the entry, "/model/entry"; for a package's file "/model/entry/NAME"
  std::string path;     ///< absolute, with links resolved
  std::string sha256;
  std::string text;  ///< the file's contents, matching the digest
};

/// The Python code of a graph, which the user has trusted.
struct PythonCode {
  std::vector<PythonFile> entries = {};
  std::map<std::string, std::string> files =
      {};  ///< SHA-256 by path, of the entries and of the files they may import from their folders
  std::vector<std::string> folders = {};  ///< folders searched for the user's modules, in order

  /// True if one of the entries has this `pointer`.
  bool has_entry(std::string_view pointer) const {
    return std::ranges::find(entries, pointer, &PythonFile::pointer) != entries.end();
  }
};

}  // namespace runner
