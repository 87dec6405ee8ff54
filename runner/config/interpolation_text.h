#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "runner/config/interpolation_parser.h"
#include "runner/value/value.h"

namespace runner {

/// Calls `change` with `value` and everything in it.
void for_all(Value& value, const std::function<void(Value&)>& change);

/// What a copy of `value` costs: its values, and a little for long texts.
std::size_t copy_cost(const Value& value);

/// An interpolation as messages show it.
std::string quoted_reference(const Interpolation& interpolation);

/// Is there an ${item.x} among them?
bool keeps_item(const TextPieces& pieces);
/// Does `text` hold ${item.x}, and nothing that is wrong?
bool holds_item(const std::string& text);

/// A text that gives `literal` when its interpolations are resolved.
std::string escaped(const std::string& literal);

}  // namespace runner
