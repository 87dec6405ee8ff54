#pragma once

#include <span>
#include <string>
#include <vector>

#include "runner/parent/schema/schema_node.h"

namespace runner {

/// What may stand at a key, as far as it can be listed.
struct KeyChoices {
  struct Choice {
    Value value;
    std::string description;
  };
  std::string description;      ///< of the key
  std::vector<Choice> choices;  ///< enum values, booleans, null, kinds and examples; others may fit as well
  bool takes_scalar = false;    ///< else a list or a mapping
  bool is_path = false;         ///< a file or a folder
};

/// What `schema` says of the key at `path` below `value`; an index steps into a list. Empty where it says nothing.
KeyChoices key_choices(const SchemaNode& schema, const Value& value, std::span<const std::string> path);

}  // namespace runner
