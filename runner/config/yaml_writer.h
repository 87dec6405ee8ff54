#pragma once

#include <string>

#include "runner/value.h"

namespace runner {

/// `value` as YAML in block style, keys in their order; strings that would read back as another type are quoted,
/// so read_yaml(write_yaml(v)) has the same data. Secrets are written as their interpolation.
std::string write_yaml(const Value& value);

}  // namespace runner
