#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "runner/shared/stage/memory_plan.h"

namespace runner {

/// Returns the plan of a node of the run in `run`; nullopt if none is recorded or it is damaged.
std::optional<MemoryPlan> recorded_plan(const std::filesystem::path& run, const std::string& node);

/// Returns how many bytes a run needs at its peak: the largest of its nodes' plans, which are
/// recorded in plan.json; nullopt if no plan is recorded. Damaged files count as absent.
std::optional<std::int64_t> planned_bytes_of(const std::filesystem::path& run);

}  // namespace runner
