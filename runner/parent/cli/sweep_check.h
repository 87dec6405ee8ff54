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

/// What differs between a sweep as it was begun and as it is resumed now. Relative paths are
/// resolved in the folder where it was begun.
///
/// Errors: the recipe of a trial that is still to run was changed (kDamagedRecord); the invocation
/// `named`, if it names a recipe, makes other trials than the journal has (kChangedRun, with the
/// first settings that differ); input files have changed since a trial began (kChangedRun, a
/// warning with `force`). Warnings: a trial that has begun used another build or processor, or
/// `slots` trials at a time use more threads than the processor has.
Diagnostics check_resumed_sweep(const SweepJournal& journal, const NamedRecipe& named,
                                std::int64_t slots, bool force, Sources& sources);

/// What differs between the record of `run` and the environment in which `graph`, of the resolved
/// `recipe`, is to continue from it or to run again. `environment` is what would be recorded now,
/// `old_recipe` what was recorded. An input that an override names is not included.
std::vector<RecordChange> changes_since_record(const RecordedRun& run,
                                               const nlohmann::ordered_json& environment,
                                               const Graph& graph, const Value& old_recipe,
                                               const Value& recipe);

/// kChangedRun for each change. A change that decides the result is an error unless `force` is set;
/// the others are warnings. One more warning if the record of `run` does not say what the inputs
/// were.
Diagnostics reported_changes(const std::vector<RecordChange>& changes, const RecordedRun& run,
                             const nlohmann::ordered_json& environment, bool force);

/// True if the recipe in the record is not what Retort wrote there. False if the record, from an
/// earlier version, does not say.
bool is_recipe_edited(const RecordedRun& run);
/// "'outputs/a/.retort/recipe.yaml' was edited: …", if it was edited.
std::string edited_recipe_text(const RecordedRun& run);

}  // namespace runner
