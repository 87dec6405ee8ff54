#pragma once

namespace runner {

/// Of ASCII alone, whatever the locale.
inline bool is_digit(char c) { return c >= '0' && c <= '9'; }
inline bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
/// A space or a tab.
inline bool is_blank(char c) { return c == ' ' || c == '\t'; }

}  // namespace runner
