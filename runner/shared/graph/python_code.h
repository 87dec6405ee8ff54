#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace runner {

/// A Python file that an entry of a recipe names.
struct PythonFile {
  std::string pointer;  ///< the entry, "/model/entry"; for a package's file "/model/entry/NAME"
  std::string path;     ///< absolute, without links
  std::string sha256;
  std::string text;  ///< the file's contents, which have that digest
};

/// The Python code of a graph, which the user has trusted.
struct PythonCode {
  std::vector<PythonFile> entries = {};
  std::map<std::string, std::string> files =
      {};  ///< SHA-256 by path, of the entries and of what they may import from their folders
  std::vector<std::string> folders = {};  ///< where the user's modules are searched for, in order

  /// True if one of the entries has this `pointer`.
  bool has_entry(std::string_view pointer) const {
    return std::ranges::find(entries, pointer, &PythonFile::pointer) != entries.end();
  }
};

}  // namespace runner
