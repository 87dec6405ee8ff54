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

}  // namespace

Diagnostics check_change(const Value& before, const Value& after, bool force, const SchemaSet& schemas) {
  Diagnostics errors;
  for (const Difference& change : differences(before, after)) {
    // Either recipe may name the kind that knows the option.
    const ResumeClass resume =
        std::max(schemas.resume_class(before, change.path), schemas.resume_class(after, change.path));
    if (resume == ResumeClass::kSafe || (resume == ResumeClass::kForce && force)) continue;
    const bool refused = resume == ResumeClass::kRefused;
    errors.push_back({ErrorCode::kChangedRun, change.after ? change.after->where : Location{}, pointer_of(change.path),
                      change_in_words(change) + (refused ? ": what the run has saved does not fit that" : ""),
                      refused ? "leave it as it was, or start a new run"
                              : "leave it as it was, start a new run, or say --force: the result is then neither "
                                "recipe's"});
  }
  return errors;
}

}  // namespace runner
