#pragma once

#include "runner/parent/cli/prepare.h"
#include "runner/parent/run/launched_rank.h"

namespace runner {

/// prepare() for a process that a launcher has started as one of several ranks: the recipe has
/// device.count as many. kOptionConflict if it says another number itself. Without a launcher, the
/// same as prepare().
Result<PreparedRecipe> prepare_launched(const std::optional<LaunchedRank>& launched,
                                        NamedRecipe named, const SchemaSet& schemas,
                                        Sources& sources);

/// prepare_recorded(), for the same. A recorded run may be resumed with another number of ranks.
Result<PreparedRecipe> prepare_recorded_launched(const std::optional<LaunchedRank>& launched,
                                                 const std::filesystem::path& recipe,
                                                 std::vector<std::string> overrides,
                                                 const SchemaSet& schemas, Sources& sources);

/// Only rank 0 says what all of them would.
void quieten_other_ranks(const std::optional<LaunchedRank>& launched, Console& console);

/// The error of a verb that cannot be run by several ranks, if a launcher has started some.
Diagnostics refused_under_launcher(std::string_view verb, const std::string& help);

}  // namespace runner
