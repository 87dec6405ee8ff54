#pragma once

#include <string>

#include "runner/error/location.h"
#include "runner/value/value.h"

namespace runner {

/// Where a value came from, for people: "recipes/classify.yaml:12", or "override 'lr=1'" as it was typed. Empty when
/// the place is not known.
std::string origin_text(const Location& where);

/// `value` as YAML, each line of it followed by where it came from: "lr: 0.1    # recipes/a.yaml:3". What was filled
/// in from a schema says "default".
std::string yaml_with_origins(const Value& value);

}  // namespace runner
