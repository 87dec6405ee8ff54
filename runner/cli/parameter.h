#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace runner {

/// A flag of a verb, or a word at a certain place: how it is shown, what it takes, and where its value goes.
///
///   {.name = "--only", .value = &options.only, .summary = "Run this node and what it needs", .type = "NODE"}
struct Parameter {
  /// bool: a flag without a value. A list takes all the words that follow, unless `once_each`.
  using Value = std::variant<bool*, std::string*, std::int64_t*, std::vector<std::string>*>;
  struct Range {
    std::int64_t least, most;
  };

  std::string name;  ///< "recipe": a word at its place; "--only", "-p,--package": flags
  Value value;       ///< borrowed; what is there before is the default
  std::string summary;
  std::string type = {};                  ///< what its value is, in help and for completion: "DIR"; may be empty
  std::vector<std::string> choices = {};  ///< the values it takes; empty: any
  Range range = {0, INT64_MAX};           ///< of a number
  bool required = false;
  bool once_each = false;      ///< of a list: one value after each flag
  bool shows_default = false;  ///< in help
  std::string assumed = {};    ///< shown in help as the default
  std::string excludes = {};   ///< a flag that cannot stand beside it

  bool is_flag() const { return name.starts_with('-'); }
};

}  // namespace runner
