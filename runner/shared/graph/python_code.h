#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace runner {

/// A Python file that an entry of a recipe names.
struct PythonFile {
  std::string pointer;  ///< the entry, "/model/entry"; for a file of a package "/model/entry/NAME"
  std::string path;     ///< complete, without links
  std::string sha256;
  std::string text;  ///< these bytes have that digest
};

/// The Python code of a graph, which the user has trusted.
struct PythonCode {
  std::vector<PythonFile> entries = {};
  std::map<std::string, std::string> files =
      {};  ///< SHA-256 by path: the entries, and what else they may import from their folders
  std::vector<std::string> folders = {};  ///< where modules of the user are looked for, in order

  /// True if `pointer` is that of one of the entries.
  bool has_entry(std::string_view pointer) const {
    return std::ranges::find(entries, pointer, &PythonFile::pointer) != entries.end();
  }
};

}  // namespace runner
