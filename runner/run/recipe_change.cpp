#include "runner/run/recipe_change.h"

#include <algorithm>
#include <string>
#include <vector>

#include "runner/config/difference.h"
#include "runner/schema/schema_node.h"

namespace runner {
namespace {

std::string pointer_of(const std::vector<std::string>& path) {
  std::string pointer;
  for (const std::string& key : path) pointer = pointer_to(pointer, key);
  return pointer;
}

std::string change_in_words(const Difference& change) {
  if (!change.before) return "'" + change.key + "' is new";
  if (!change.after) return "'" + change.key + "' is gone";
  return "'" + change.key + "' was " + describe(*change.before) + " and is now " + describe(*change.after);
}

/// "model" of a stage of kind model.clip_vision; empty where `key` is no stage.
std::string family_of(const Value& recipe, const std::string& key) {
  const Value* stage = recipe.find(key);
  const Value* kind = stage ? stage->find("kind") : nullptr;
  return kind && kind->text() ? kind->text()->substr(0, kind->text()->find('.')) : "";
}

}  // namespace

Diagnostics check_change(const Value& before, const Value& after, bool force, const SchemaSet& schemas) {
  Diagnostics errors;
  for (const Difference& change : differences(before, after)) {
    // Either recipe may name the kind that knows the option.
    const ResumeClass resume =
        std::max(schemas.resume_class(before, change.path), schemas.resume_class(after, change.path));
    if (resume == ResumeClass::kSafe || (resume == ResumeClass::kForce && force)) continue;
    const bool refused = resume == ResumeClass::kRefused;
    errors.push_back(
        {ErrorCode::kChangedRun, change.after ? change.after->where : Location{}, pointer_of(change.path),
         change_in_words(change) + (refused ? ": what the run has saved does not fit that" : ""),
         refused ? "leave it as it was, or start a new run"
                 : "leave it as it was, start a new run, or add --force: the result is then neither recipe's"});
  }
  return errors;
}

Diagnostics check_change_of_trained(const Value& before, const Value& after) {
  Diagnostics errors;
  for (const Difference& change : differences(before, after)) {
    // A stage that is new is judged by the kind that it has now.
    const std::string family = std::max(family_of(before, change.path.front()), family_of(after, change.path.front()));
    const bool is_model = family == "model";
    if (!is_model && family != "train" && change.path.front() != "seed") continue;
    errors.push_back({ErrorCode::kTrainedOption, change.after ? change.after->where : Location{},
                      pointer_of(change.path),
                      change_in_words(change) + (is_model ? ": the trained weights do not fit that"
                                                          : ": the training is done, so that has no effect on it"),
                      "leave it as it was, or train again with `retort run`"});
  }
  return errors;
}

}  // namespace runner
