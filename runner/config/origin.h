#pragma once

#include <string>

#include "runner/location.h"

namespace runner {

/// Where a value came from, for people: "recipes/classify.yaml:12", or "override 'lr=1'" as it was typed. Empty when
/// the place is not known.
std::string origin_text(const Location& where);

}  // namespace runner
