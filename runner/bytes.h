#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace runner {

/// "17 B", "512 MiB", "2.0 GiB".
std::string bytes_text(std::int64_t bytes);

/// The bytes of "8GiB", "512MiB" or "1.5GiB", rounded down; nullopt for any other text.
std::optional<std::int64_t> bytes_from(std::string_view text);

}  // namespace runner
