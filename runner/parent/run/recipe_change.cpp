#include "runner/parent/run/recipe_change.h"

#include <algorithm>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "runner/parent/config/provenance.h"
#include "runner/parent/config/secret.h"
#include "runner/parent/schema/schema_node.h"
#include "runner/shared/stage/family.h"

namespace runner {
namespace {

std::string pointer_of(const std::vector<std::string>& path) {
  std::string pointer;
  for (const std::string& key : path) pointer = pointer_to(pointer, key);
  return pointer;
}

std::string change_in_words(const Difference& change) {
  if (!change.before) return "'" + change.key + "' is new";
  if (!change.after) return "'" + change.key + "' was removed";
  return "'" + change.key + "' was " + describe(*change.before) + " and is now " +
         describe(*change.after);
}

/// True if `recipe` has a stage `key` of this family.
bool has_stage(const Value& recipe, const std::string& key, Family family) {
  const Value* stage = recipe.find(key);
  const Value* kind = stage ? stage->find("kind") : nullptr;
  return kind && kind->text() && family_of(*kind->text()) == family;
}

/// Returns the schedule's kind for the training stage that has its `epochs` at `path`, if its
/// learning rates depend on the number of epochs; otherwise "".
std::string schedule_over(const Value& recipe, const std::vector<std::string>& path,
                          const SchemaSet& schemas) {
  if (path.size() != 2 || path[1] != "epochs" || !has_stage(recipe, path[0], Family::kTrain))
    return "";
  const Value* schedule = recipe.find(path[0])->find("schedule");
  const Value* kind = schedule ? schedule->find("kind") : nullptr;
  if (!kind || !kind->text()) return "";
  const auto* document = schemas.document("train/schedule/" + *kind->text());
  return document && document->value("x-spans-training", false) ? *kind->text() : "";
}

/// True if a secret missing from the record was supplied again; whether it has changed is unknown.
bool is_given_again(const Difference& change) {
  return change.before && is_lost_secret(*change.before) && change.after && change.after->text();
}

}  // namespace

Diagnostics check_change(const Value& before, const Value& after, bool force,
                         const SchemaSet& schemas) {
  Diagnostics errors;
  for (const Difference& change : differences(before, after)) {
    if (is_given_again(change)) continue;
    // Either recipe may contain the kind that defines the option.
    const ResumeClass resume = std::max(schemas.resume_class(before, change.path),
                                        schemas.resume_class(after, change.path));
    const std::string schedule = schedule_over(after, change.path, schemas);
    const bool is_safe = resume == ResumeClass::kSafe && schedule.empty();
    if (is_safe || (resume != ResumeClass::kRefused && force)) continue;
    const bool refused = resume == ResumeClass::kRefused;
    errors.push_back(
        {ErrorCode::kChangedRun, change.after ? change.after->where : Location{},
         pointer_of(change.path),
         change_in_words(change) + (refused ? ": the saved state is incompatible with this change"
                                    : !schedule.empty()
                                        ? ": the schedule '" + schedule +
                                              "' spans all epochs, so the epochs completed so far "
                                              "would have had different learning rates"
                                        : ""),
         refused ? "leave it unchanged, or start a new run"
                 : "leave it unchanged, start a new run, or use --force, in which case the result "
                   "matches neither the old nor the new recipe"});
  }
  return errors;
}

Diagnostics check_change_of_trained(const Value& before, const Value& after) {
  Diagnostics errors;
  for (const Difference& change : differences(before, after)) {
    if (is_given_again(change)) continue;
    const std::string& key = change.path.front();
    const auto is_of = [&](Family family) {
      return has_stage(before, key, family) || has_stage(after, key, family);
    };
    const bool is_model = is_of(Family::kModel);
    if (!is_model && !is_of(Family::kTrain) && key != "seed") continue;
    errors.push_back({ErrorCode::kTrainedOption, change.after ? change.after->where : Location{},
                      pointer_of(change.path),
                      change_in_words(change) +
                          (is_model ? ": the trained weights are incompatible with this change"
                                    : ": the training is done, so this change has no effect"),
                      "leave it unchanged, or train again with `retort run`"});
  }
  return errors;
}

}  // namespace runner
