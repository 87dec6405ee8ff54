#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "runner/shared/graph/graph.h"
#include "runner/parent/record/record_changes.h"
#include "runner/shared/record/recorded_run.h"
#include "runner/shared/value/value.h"

namespace runner {

/// What differs between the record of `run` and the world in which `graph`, of the resolved `recipe`, is to go on from
/// it or to be run again: `environment` is what would be recorded now, `old_recipe` what was recorded. An input that an
/// override names is not among it.
std::vector<RecordChange> changes_since_record(const RecordedRun& run, const nlohmann::ordered_json& environment,
                                               const Graph& graph, const Value& old_recipe, const Value& recipe);

/// kChangedRun for each change: what decides the result is an error unless `force` is given, the rest a warning. One
/// more warning where the record of `run` does not say what the inputs were.
Diagnostics told_changes(const std::vector<RecordChange>& changes, const RecordedRun& run,
                         const nlohmann::ordered_json& environment, bool force);

/// Is the recipe of the record not what Retort wrote there? False where the record, of an earlier version, does not
/// say.
bool is_recipe_edited(const RecordedRun& run);
/// "'outputs/a/.retort/recipe.yaml' was edited: …", where it is.
std::string edited_recipe_text(const RecordedRun& run);

}  // namespace runner
