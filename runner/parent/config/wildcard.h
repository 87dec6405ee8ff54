#pragma once

#include <string_view>

namespace runner {

/// Does all of `name` match `pattern`, as Python's fnmatchcase() says? Both are UTF-8, of which a character that is no
/// such counts as its bytes.
///
///   *   any characters     ?   one character     [a-z_]   one of these     [!a-z_]   one that is none of these
///
/// Everything else is itself, and so is a '[' that no ']' closes. Takes at worst time in proportion to the product of
/// their lengths.
bool matches_wildcard(std::string_view name, std::string_view pattern);

}  // namespace runner
