#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace runner {

/// Returns the offset of the first byte that is not part of well-formed UTF-8 (no overlong forms,
/// no surrogates, nothing above U+10FFFF); nullopt if the whole text is well-formed.
std::optional<std::size_t> invalid_utf8(std::string_view text);

/// Returns `bytes` with each byte that is not printable ASCII escaped, as in "\\xe9". For names
/// that are not necessarily text.
std::string with_escapes(std::string_view bytes);

/// True for ASCII digits and letters only, in any locale.
inline bool is_digit(char c) { return c >= '0' && c <= '9'; }
inline bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
/// True for a space or a tab.
inline bool is_blank(char c) { return c == ' ' || c == '\t'; }

}  // namespace runner
