#include "runner/parent/cli/record_check.h"

#include <nlohmann/json.hpp>

#include "runner/shared/disk/digest.h"
#include "runner/shared/disk/file_system.h"
#include "runner/parent/schema/schema_node.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/value/parse_json.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;
using Weight = RecordChange::Weight;

/// A file of the record; null where it cannot be read.
Json recorded_json(const RecordedRun& run, std::string_view name) {
  const auto text = real_file_system().read(run.recipe.parent_path() / name, 64 << 20);
  Json json = text ? parse_json<Json>(*text) : Json();
  return json.is_discarded() ? Json() : json;
}

}  // namespace

std::vector<RecordChange> changes_since_record(const RecordedRun& run, const Json& environment, const Graph& graph,
                                               const Value& old_recipe, const Value& recipe) {
  std::vector<RecordChange> changes = environment_changes(recorded_json(run, RunRecord::kEnvironment), environment);
  for (RecordChange& change : kind_changes(recorded_json(run, RunRecord::kGraph), graph))
    changes.push_back(std::move(change));
  // What an override has changed nobody needs to be told.
  std::erase_if(changes, [&](const RecordChange& change) {
    return !change.pointer.empty() && !same_data(nearest(old_recipe, change.pointer), nearest(recipe, change.pointer));
  });
  if (is_recipe_edited(run)) changes.push_back({Weight::kWhole, "recipe file", edited_recipe_text(run), ""});
  return changes;
}

Diagnostics told_changes(const std::vector<RecordChange>& changes, const RecordedRun& run, const Json& environment,
                         bool force) {
  Diagnostics found;
  for (const RecordChange& change : changes) {
    const bool is_error = change.weight == Weight::kWhole && !force;
    found.push_back({ErrorCode::kChangedRun,
                     {},
                     change.pointer,
                     change.text,
                     is_error ? "put back what was there, or add --force: the result may then be another one"
                     : change.weight == Weight::kWhole ? "the result may be another one"
                                                       : "the result may differ in its last digits",
                     {},
                     is_error ? Severity::kError : Severity::kWarning});
  }
  const Json before = recorded_json(run, RunRecord::kEnvironment);
  if (before.is_object() && !before.contains("inputs") && environment.contains("inputs")) {
    found.push_back({ErrorCode::kChangedRun,
                     {},
                     "",
                     "the record does not say what the input files were: whether they have changed is not known",
                     "compare the results with those of the record",
                     {},
                     Severity::kWarning});
  }
  return found;
}

bool is_recipe_edited(const RecordedRun& run) {
  const Json graph = recorded_json(run, RunRecord::kGraph);
  const Json written = graph.is_object() ? graph.value("recipe_sha256", Json()) : Json();
  Digest digest;
  return written.is_string() && digest.update_from(run.recipe) == 0 && written != digest.finish();
}

std::string edited_recipe_text(const RecordedRun& run) {
  return "'" + run.recipe.string() + "' was edited: it is not the recipe that the run had";
}

}  // namespace runner
