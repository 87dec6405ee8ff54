#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runner/result.h"

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
  std::vector<TextPieces> arguments;
  std::vector<bool> quoted;  ///< one for each argument
};

/// What is wrong with an interpolation.
struct InterpolationSyntaxError {
  std::string message;
};

/// Cuts `text` at its interpolations and removes the backslashes that escape `${`.
/// Throws InterpolationSyntaxError; nesting is bounded.
TextPieces parse_interpolations(std::string_view text);

/// Is this ${item.x}, which composition leaves to the compiler?
bool is_item(const Interpolation& interpolation);

}  // namespace runner
