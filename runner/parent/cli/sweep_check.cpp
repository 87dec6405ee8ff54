#include "runner/parent/cli/sweep_check.h"

#include <algorithm>
#include <optional>
#include <set>
#include <thread>

#include <unistd.h>
#include <nlohmann/json.hpp>

#include "runner/parent/cli/prepare.h"
#include "runner/parent/cli/prepare_sweep.h"
#include "runner/parent/compile/recipe.h"
#include "runner/parent/config/override.h"
#include "runner/parent/config/provenance.h"
#include "runner/parent/config/yaml_reader.h"
#include "runner/parent/record/environment_record.h"
#include "runner/parent/record/input_record.h"
#include "runner/parent/schema/schema_node.h"
#include "runner/parent/sweep/sweep_journal.h"
#include "runner/shared/disk/digest.h"
#include "runner/shared/disk/file_digests.h"
#include "runner/shared/record/recorded_run.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/text/join.h"
#include "runner/shared/value/parse_json.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;
using Weight = RecordChange::Weight;

/// True if `value` contains an interpolation. A value that is resolved at run time, such as a
/// secret, is not in the file, so the hash of the file cannot be checked.
bool has_interpolation(const Value& value) {
  if (const auto* map = value.map())
    return std::ranges::any_of(*map,
                               [](const Entry& entry) { return has_interpolation(entry.value); });
  if (const auto* list = value.list()) return std::ranges::any_of(*list, has_interpolation);
  return value.text() && value.text()->find("${") != std::string::npos;
}

constexpr std::size_t kShownSettings = 6;

class SweepCheck {
 public:
  SweepCheck(const SweepJournal& journal, Sources& sources)
      : journal_(journal),
        layout_(journal.folder()),
        sources_(sources),
        schemas_(shipped_schemas()) {}

  void check_recipes() {
    for (const Trial& trial : journal_.trials()) {
      if (trial.state == TrialState::kFinished) continue;
      const auto recipe = trial_recipe(layout_, trial.number, sources_);
      const bool is_same =
          recipe && (has_interpolation(*recipe) || recipe_hash(*recipe) == trial.hash);
      if (is_same) continue;
      const std::string file = layout_.recipe(trial.number).string();
      add(ErrorCode::kDamagedRecord,
          recipe ? "'" + file + "' is not the recipe that trial " + std::to_string(trial.number) +
                       " began with"
                 : "'" + file + "', the recipe of trial " + std::to_string(trial.number) +
                       ", cannot be read",
          "restore it, or start another sweep: trials of one sweep may differ only in the values "
          "listed in the journal");
    }
  }

  void check_invocation(const NamedRecipe& named, std::int64_t slots) {
    const auto prepared = prepare_sweep(named, schemas_, sources_, slots);
    if (!prepared) {
      found_.insert(found_.end(), prepared.errors().begin(), prepared.errors().end());
      return;
    }
    const std::size_t before = journal_.trials().size(), now = prepared->jobs.size();
    std::vector<std::string> other;
    if (before != now)
      other.push_back("there were " + std::to_string(before) + " trials and would now be " +
                      std::to_string(now));
    for (std::size_t i = 0; i < std::min(before, now); ++i)
      compare_trial(i, prepared->jobs[i], other);
    if (other.empty()) return;
    add(ErrorCode::kChangedRun,
        "this is not how the sweep was started: " + listed(other, kShownSettings),
        "it was started as `retort sweep " + journal_.plan().recipe + " " +
            join(journal_.plan().overrides, " ") +
            "`; resume it without a recipe, or start another sweep in another sweep.dir");
  }

  void check_threads(std::int64_t slots) {
    const auto cores = static_cast<std::int64_t>(std::thread::hardware_concurrency());
    for (const Trial& trial : journal_.trials()) {
      if (trial.state == TrialState::kFinished || slots == 1) continue;
      const auto recipe = trial_recipe(layout_, trial.number, sources_);
      const Value* value = recipe ? recipe->find("threads") : nullptr;
      const auto* written = value ? std::get_if<std::int64_t>(&value->data) : nullptr;
      const std::int64_t threads = written ? *written * ranks_of(*recipe) : cores;
      if (threads * slots > cores)
        warn_of(std::to_string(slots) + " trials at a time with " + std::to_string(threads) +
                    " threads each use more than the processor's " + std::to_string(cores) +
                    " threads",
                "the number of threads affects the last digits of results, so it remains as it was "
                "when the sweep started; use fewer --slots");
      return;
    }
  }

  void check_environment(bool force) {
    std::set<std::string> seen;  // environments and inputs, each inspected once
    std::set<std::string> said;
    for (const Trial& trial : journal_.trials()) {
      const auto run = read_run(layout_.run(trial.number));
      if (!run) continue;
      if (trial.state != TrialState::kFinished && is_recipe_edited(*run))
        add(ErrorCode::kDamagedRecord, edited_recipe_text(*run),
            "restore it: the trial continues from it");
      const auto text =
          real_file_system().read(run->recipe.parent_path() / RunRecord::kEnvironment, 64 << 20);
      const Json before = text ? parse_json<Json>(*text) : Json();
      if (!before.is_object() || !seen.insert(before.value("inputs", Json()).dump()).second)
        continue;
      for (const RecordChange& change : environment_changes(before, environment_now(trial))) {
        if (!said.insert(change.text).second) continue;
        const bool is_error = change.weight == Weight::kWhole && !force;
        if (is_error) {
          add(ErrorCode::kChangedRun,
              "since trial " + std::to_string(trial.number) + " began, " + change.text,
              "restore it, or add --force, in which case trials from before and after the change "
              "cannot be compared");
        } else {
          warn_of("since trial " + std::to_string(trial.number) + " began, " + change.text,
                  change.weight == Weight::kWhole
                      ? "trials from before and after the change cannot be compared"
                      : "later trials may differ from earlier ones in their last digits");
        }
      }
    }
  }

  Diagnostics take() { return std::move(found_); }

 private:
  /// Returns the parts of the environment that are known without a worker.
  Json environment_now(const Trial& trial) {
    Json now = environment_record(nullptr, environ);
    // A worker adds variables that its device needs.
    now.erase("variables");
    const auto recipe = trial_recipe(layout_, trial.number, sources_);
    if (recipe) now["inputs"] = input_record(input_paths(*recipe, schemas_));
    return now;
  }

  void compare_trial(std::size_t number, const PreparedTrial& job,
                     std::vector<std::string>& other) const {
    const Trial& trial = journal_.trials()[number];
    if (job.hash == trial.hash) return;
    const auto recipe = trial_recipe(layout_, number, sources_);
    if (!recipe) return;  // already reported
    for (const Difference& change : differences(*recipe, job.recipe)) {
      // The number of threads depends on --slots.
      const bool is_secret = change.before && has_interpolation(*change.before);
      if (change.key == "threads" || is_secret) continue;
      const auto side = [](const std::optional<Value>& value) {
        return value ? describe(*value) : "not set";
      };
      other.push_back("in trial " + std::to_string(number) + " '" + change.key + "' was " +
                      side(change.before) + " and would now be " + side(change.after));
    }
  }

  void add(ErrorCode code, std::string message, std::string help) {
    found_.push_back({code, {}, "", std::move(message), std::move(help)});
  }
  void warn_of(std::string message, std::string help) {
    add(ErrorCode::kChangedRun, std::move(message), std::move(help));
    found_.back().severity = Severity::kWarning;
  }

  const SweepJournal& journal_;
  const SweepLayout layout_;
  Sources& sources_;
  const SchemaSet& schemas_;
  Diagnostics found_;
};

}  // namespace

Diagnostics check_resumed_sweep(const SweepJournal& journal, const NamedRecipe& named,
                                std::int64_t slots, bool force, Sources& sources) {
  SweepCheck check(journal, sources);
  check.check_recipes();
  if (!named.name.empty()) check.check_invocation(named, slots);
  check.check_threads(slots);
  check.check_environment(force);
  return check.take();
}

namespace {

using Json = nlohmann::ordered_json;
using Weight = RecordChange::Weight;

/// Returns a file of the record as JSON; null if it cannot be read.
Json recorded_json(const RecordedRun& run, std::string_view name) {
  const auto text = real_file_system().read(run.recipe.parent_path() / name, 64 << 20);
  Json json = text ? parse_json<Json>(*text) : Json();
  return json.is_discarded() ? Json() : json;
}

}  // namespace

std::vector<RecordChange> changes_since_record(const RecordedRun& run, const Json& environment,
                                               const Graph& graph, const Value& old_recipe,
                                               const Value& recipe) {
  std::vector<RecordChange> changes =
      environment_changes(recorded_json(run, RunRecord::kEnvironment), environment);
  for (RecordChange& change : kind_changes(recorded_json(run, RunRecord::kGraph), graph))
    changes.push_back(std::move(change));
  // Changes made by an override need not be reported.
  std::erase_if(changes, [&](const RecordChange& change) {
    return !change.pointer.empty() &&
           !same_data(nearest(old_recipe, change.pointer), nearest(recipe, change.pointer));
  });
  if (is_recipe_edited(run))
    changes.push_back({Weight::kWhole, "recipe file", edited_recipe_text(run), ""});
  return changes;
}

Diagnostics reported_changes(const std::vector<RecordChange>& changes, const RecordedRun& run,
                             const Json& environment, bool force) {
  Diagnostics found;
  for (const RecordChange& change : changes) {
    const bool is_error = change.weight == Weight::kWhole && !force;
    found.push_back({ErrorCode::kChangedRun,
                     {},
                     change.pointer,
                     change.text,
                     is_error ? "restore it, or add --force, in which case the result may differ"
                     : change.weight == Weight::kBits ? "the result may differ in its last digits"
                                                      : "the result may be different",
                     {},
                     is_error ? Severity::kError : Severity::kWarning});
  }
  const Json before = recorded_json(run, RunRecord::kEnvironment);
  if (before.is_object() && !before.contains("inputs") && environment.contains("inputs")) {
    found.push_back(
        {ErrorCode::kChangedRun,
         {},
         "",
         "the record does not list the input files, so changes to them cannot be detected",
         "compare the results with those in the record",
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
  return "'" + run.recipe.string() + "' was edited: it is no longer the recipe that the run used";
}

}  // namespace runner
