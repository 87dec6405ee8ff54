#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runner/value/value.h"

namespace runner {

/// A value of a document and the way to it from the root. Borrows the value and its parent.
struct Scope {
  const Value* value;
  std::string key;
  const Scope* parent;  ///< null for the root
};

/// The keys from the root to `scope`.
std::vector<std::string> path_of(const Scope& scope);

/// The same as "a.b.0", and as an RFC 6901 pointer.
std::string dotted_path(const Scope& scope);
std::string pointer_of(const Scope& scope);

/// Finds what a key names in a mapping, or an index, counted from either end, in a list. Large mappings are indexed
/// when they are first asked, so the values must stay as they are and where they are.
class ChildFinder {
 public:
  /// Null when there is no such child.
  const Value* find(const Value& parent, const std::string& key);

 private:
  std::unordered_map<const Value*, std::unordered_map<std::string_view, const Value*>> indexes_;
};

}  // namespace runner
