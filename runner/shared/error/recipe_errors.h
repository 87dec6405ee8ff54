#pragma once

#include <span>

#include "runner/shared/error/error_code.h"

namespace runner {

/// Returns the part of the error table that concerns recipes, sorted by number: 01 for reading, 02
/// composing, 03 validating and 04 compiling. The other parts are in error_code.cpp.
std::span<const ErrorInfo> recipe_errors();

}  // namespace runner
