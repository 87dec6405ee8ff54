#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runner/shared/value/value.h"

namespace runner {

struct Interpolation;

/// A text cut at its interpolations: literal text, or an interpolation.
using TextPiece = std::variant<std::string, std::unique_ptr<Interpolation>>;
using TextPieces = std::vector<TextPiece>;

/// One ${...}.
struct Interpolation {
  std::string written;           ///< "${a.b}", as it stands in the text
  int dots = 0;                  ///< leading dots of a relative key; 0: from the root
  std::vector<TextPieces> keys;  ///< ${a.b.c}: each a literal or a nested interpolation
  std::string resolver;          ///< "oc.env" of ${oc.env:HOME}; empty for a key
  std::vector<Value> arguments;  ///< of the resolver, as parse_written_value() reads them
};

/// What is wrong with an interpolation, and what to do about it.
struct InterpolationSyntaxError {
  std::string message;
  std::string help = "a literal ${ is written \\${";
};

/// Cuts `text` at its interpolations and removes the backslashes that escape `${`.
/// Throws InterpolationSyntaxError; nesting is bounded.
TextPieces parse_interpolations(std::string_view text);

/// A key without the braces around it: "a.b", "..a[0]". Throws InterpolationSyntaxError.
Interpolation parse_interpolation_key(std::string_view text);

/// A value in the grammar of overrides, without sweeps and functions that change what is there. Interpolations are left
/// in its texts as they are written, and a text in quotes has its ScalarForm; no value has a place.
/// Throws InterpolationSyntaxError.
Value parse_written_value(std::string_view text);

/// Is this ${item.x}, which composition leaves to the compiler?
bool is_item(const Interpolation& interpolation);

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
