#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace runner {

/// Returns a size rounded for use in prose, with at most three digits: "17 B", "512 MiB", "2.0
/// GiB".
std::string bytes_text(std::int64_t bytes);
/// Returns a size formatted for comparison with others: "17 B", "3.5 KiB", "96.0 MiB", "1.21 GiB",
/// "-2.0 MiB".
std::string size_text(std::int64_t bytes);

/// Parses a size in the format of memory.budget: "8GiB", "512MiB", "1.5GiB" or, in powers of ten,
/// "8GB" and "512MB". Rounds down to whole bytes; returns nullopt for any other text.
std::optional<std::int64_t> bytes_from(std::string_view text);

/// Returns `value` with `places` decimal places, such as "0.50"; "nan", "inf" or "-inf" if it is
/// not finite.
std::string decimal(double value, int places);

/// Returns a fraction as a percentage, such as "83.3".
std::string percent(double share);

/// Formats a number with at most `digits` significant digits: "0.3333", "1.5e-09".
std::string significant(double value, int digits);

/// Returns a duration as hours, minutes and seconds, such as "0:01:23".
std::string duration_text(double seconds);

}  // namespace runner
