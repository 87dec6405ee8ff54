#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runner/shared/value/value.h"

namespace runner {

/// `value` as YAML in block style, keys in their order; strings that would parse as another type
/// are quoted, so read_yaml(write_yaml(v)) has the same data. Secrets are written as their
/// interpolation.
std::string write_yaml(const Value& value);

/// `text` in double quotes, on one line: a string in any position.
std::string quoted_yaml(std::string_view text);

/// The same as lines without their ends, each with the value that begins on it.
struct YamlLine {
  std::string text;
  const Value* value;
};
std::vector<YamlLine> yaml_lines(const Value& value);

}  // namespace runner
