#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace runner {

/// Returns the bytes that a run needs at its peak according to the plans of its nodes, which are
/// recorded in plan.json: the largest of them; nullopt if no plan is recorded. Damaged files count
/// as absent.
std::optional<std::int64_t> planned_bytes_of(const std::filesystem::path& run);

}  // namespace runner
