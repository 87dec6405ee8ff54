#pragma once

#include "runner/parent/cli/prepare.h"
#include "runner/parent/run/launched_rank.h"

namespace runner {

/// Like prepare(), but if a launcher has started this process as one of several ranks, sets
/// device.count to their number. Fails with kOptionConflict if the recipe sets another number.
Result<PreparedRecipe> prepare_launched(const std::optional<LaunchedRank>& launched,
                                        NamedRecipe named, const SchemaSet& schemas,
                                        Sources& sources);

/// Like prepare_recorded(), with device.count set to the number of ranks started by a launcher, if
/// any. The recorded number may differ, but if an override sets a different number, fails with
/// kOptionConflict.
Result<PreparedRecipe> prepare_recorded_launched(const std::optional<LaunchedRank>& launched,
                                                 const std::filesystem::path& recipe,
                                                 std::vector<std::string> overrides,
                                                 const SchemaSet& schemas, Sources& sources);

/// Makes all ranks but rank 0 quiet, so that messages common to all ranks appear only once.
void quieten_other_ranks(const std::optional<LaunchedRank>& launched, Console& console);

/// For a verb that uses a trained network in one process: returns an error if its recipe `after`
/// asks for several ranks, unless the recorded recipe `before` does as well.
Diagnostics refused_ranks(std::string_view verb, const Value& before, const Value& after);

/// Returns an error with `help` if a launcher has started several ranks, for a verb that allows
/// only one process.
Diagnostics refused_under_launcher(std::string_view verb, const std::string& help);

}  // namespace runner
