#include "runner/parent/cli/reserved_keys.h"

#include <string>

#include "runner/parent/config/hydra_settings.h"
#include "runner/parent/config/override.h"

namespace runner {
namespace {

bool is_below(std::string_view key, std::string_view top) {
  return key == top || (key.starts_with(top) && key[top.size()] == '.');
}

/// True if the value at `where` comes from an override, or from a key of sweep.params.
bool is_typed(const Location& where) {
  return where.source && (where.source->name.starts_with("override") ||
                          where.source->name.starts_with("sweep.params"));
}

std::string own_key(const Override& override) {
  return hydra_counterpart(override.key).value_or(override.key);
}

}  // namespace

bool is_sweep_key(std::string_view key) {
  while (!key.empty() && (key.front() == '+' || key.front() == '~')) key.remove_prefix(1);
  const std::string plain(key.substr(0, key.find('@')));
  const std::string meant = hydra_counterpart(plain).value_or(plain);
  return is_below(meant, "sweep") || meant == "launcher";
}

Diagnostics run_folder_of_trial(const Value& recipe) {
  const Value* const dir = at_key(recipe, "run.dir");
  if (!dir || !dir->text()) return {};
  const Value* const of_sweep = at_key(recipe, "sweep.dir");
  if (!is_typed(dir->where) && of_sweep && of_sweep->text()) return {};
  return {{ErrorCode::kBadSweep, dir->where, "/run/dir",
           "run.dir is the folder of a single run, but each trial of a sweep has its own",
           "set the sweep's folder, which contains all its trials: sweep.dir=" + *dir->text()}};
}

Diagnostics sweep_keys_of_single_run(const Composition& composition) {
  Diagnostics errors;
  for (const Override& override : composition.overrides) {
    if (override.kind == OverrideKind::kDelete || !is_sweep_key(own_key(override))) continue;
    errors.push_back({ErrorCode::kNeedsMultirun, override.key_where, "",
                      "'" + override.key + "' is for a sweep, but this is a single run",
                      "leave it out; run.dir=DIR sets the folder of a single run, and `retort "
                      "sweep` starts several runs"});
  }
  return errors;
}

Diagnostics run_keys_of_resumed_run(const Composition& composition) {
  Diagnostics errors;
  for (const Override& override : composition.overrides) {
    // A resumed run may be recorded in different services than before.
    const std::string key = own_key(override);
    if (!is_below(key, "run") || key == "run.mlflow" || key == "run.tensorboard") continue;
    errors.push_back(
        {ErrorCode::kChangedRun, override.key_where, "/run/dir",
         "a resumed run continues in its own folder, so '" + override.key +
             "' would change nothing",
         "leave it out; `retort runs rerun RUN run.dir=DIR` starts a new run of the same recipe"});
  }
  return errors;
}

}  // namespace runner
