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

/// The recipe that a trial was begun with; nullopt where its file is gone or is no YAML.
std::optional<Value> trial_recipe(const SweepLayout& layout, std::uint64_t trial, Sources& sources);

/// What differs between a sweep as it was begun and as it is resumed now, in the folder where its
/// relative paths stand.
///
/// Errors: a recipe of a trial that is still to run was changed (kDamagedRecord); the invocation
/// `named`, where it names a recipe, makes other trials than the journal has (kChangedRun, with the
/// first settings that differ); input files are not what they were when a trial began (kChangedRun,
/// a warning with `force`). Warnings: another build or processor than that of a trial that has
/// begun, and more threads in `slots` trials at a time than the processor has.
Diagnostics check_resumed_sweep(const SweepJournal& journal, const NamedRecipe& named,
                                std::int64_t slots, bool force, Sources& sources);

/// What differs between the record of `run` and the world in which `graph`, of the resolved
/// `recipe`, is to go on from it or to be run again: `environment` is what would be recorded now,
/// `old_recipe` what was recorded. An input that an override names is not among it.
std::vector<RecordChange> changes_since_record(const RecordedRun& run,
                                               const nlohmann::ordered_json& environment,
                                               const Graph& graph, const Value& old_recipe,
                                               const Value& recipe);

/// kChangedRun for each change: what decides the result is an error unless `force` is given, the
/// rest a warning. One more warning where the record of `run` does not say what the inputs were.
Diagnostics reported_changes(const std::vector<RecordChange>& changes, const RecordedRun& run,
                             const nlohmann::ordered_json& environment, bool force);

/// Is the recipe of the record not what Retort wrote there? False where the record, of an earlier
/// version, does not say.
bool is_recipe_edited(const RecordedRun& run);
/// "'outputs/a/.retort/recipe.yaml' was edited: …", where it is.
std::string edited_recipe_text(const RecordedRun& run);

}  // namespace runner
