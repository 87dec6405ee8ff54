#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "runner/parent/cli/command.h"
#include "runner/parent/record/input_record.h"
#include "runner/parent/sweep/sweep_journal.h"
#include "runner/shared/graph/graph.h"
#include "runner/shared/record/recorded_run.h"
#include "runner/shared/value/value.h"

namespace runner {

/// Returns the differences between a sweep as it was started and as it is now being resumed.
/// Relative paths are resolved against the folder where it was started.
///
/// Errors: the recipe of a trial that has yet to run has been changed (kDamagedRecord); the command
/// line `named`, if it names a recipe, defines trials that are not in the journal (kChangedRun,
/// with the first settings that differ); input files have changed since a trial started
/// (kChangedRun, a warning with `force`). Warnings: a trial used another build or processor, or
/// `slots` concurrent trials use more threads than the processor has.
Diagnostics check_resumed_sweep(const SweepJournal& journal, const NamedRecipe& named,
                                std::int64_t slots, bool force, Sources& sources);

/// Returns the differences between the record of `run` and the current state, in which `graph`,
/// compiled from the resolved `recipe`, is to continue or repeat that run. `environment` is what
/// would be recorded for it now; `old_recipe` is the recorded recipe. An input changed by an
/// override is not included.
std::vector<RecordChange> changes_since_record(const RecordedRun& run,
                                               const nlohmann::ordered_json& environment,
                                               const Graph& graph, const Value& old_recipe,
                                               const Value& recipe);

/// Returns a kChangedRun diagnostic for each change: an error if the change may alter the whole
/// result and `force` is not set, else a warning. Also warns if the record of `run` does not list
/// its inputs.
Diagnostics reported_changes(const std::vector<RecordChange>& changes, const RecordedRun& run,
                             const nlohmann::ordered_json& environment, bool force);

/// True if the recipe in the record was edited after Retort wrote it. False if the record is from
/// an earlier version, which did not store a hash of the recipe.
bool is_recipe_edited(const RecordedRun& run);
/// Returns the message for an edited recipe: "'outputs/a/.retort/recipe.yaml' was edited: …".
std::string edited_recipe_text(const RecordedRun& run);

}  // namespace runner
