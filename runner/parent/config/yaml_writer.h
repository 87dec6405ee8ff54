#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runner/shared/value/value.h"

namespace runner {

/// Writes `value` as YAML in block style, keeping the order of keys. Strings that would parse as
/// another type are quoted, so read_yaml(write_yaml(v)) yields the same data. Secrets are written
/// as their Value::secret_as.
std::string write_yaml(const Value& value);

/// Returns `text` in double quotes on one line, valid as a string in any position.
std::string quoted_yaml(std::string_view text);

/// A line of write_yaml() without its newline, and the value that begins on it.
struct YamlLine {
  std::string text;
  const Value* value;
};
std::vector<YamlLine> yaml_lines(const Value& value);

}  // namespace runner
