#include "runner/parent/cli/prepare_sweep.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <thread>

#include <nlohmann/json.hpp>

#include "runner/parent/cli/prepare.h"
#include "runner/parent/cli/reserved_keys.h"
#include "runner/parent/compile/compile.h"
#include "runner/parent/config/defaults_item.h"
#include "runner/parent/config/override.h"
#include "runner/parent/config/secret.h"
#include "runner/parent/config/trial_list.h"
#include "runner/parent/sweep/task_needs.h"
#include "runner/shared/graph/graph.h"

namespace runner {
namespace {

void add(Diagnostics& all, const Diagnostics& more) {
  all.insert(all.end(), more.begin(), more.end());
}

TrialChoice one_of(const Override& override) {
  if (override.sweep->kind != Sweep::Kind::kInterval) return {};
  return {.seed = 0, .samples = 1};
}

/// Returns the overrides with the first value of each swept key, to compose the recipe before the
/// trials are known.
std::vector<Override> first_values(const Composer& composer) {
  std::vector<Override> result;
  for (const Override& override : composer.overrides()) {
    if (!override.sweep) {
      result.push_back(override);
    } else if (const auto alone =
                   TrialList::make(std::vector{override}, composer.configs(), one_of(override))) {
      const std::vector<Override> first = (*alone)[0];
      result.insert(result.end(), first.begin(), first.end());
    }
  }
  return result;
}

/// Returns the file and the line, as in "recipes/a.yaml:3".
std::string place_text(const Location& where) {
  return where.source ? where.source->name + ":" + std::to_string(where.line) : "";
}

/// Returns the values of a key in `sweep.params` in override syntax.
std::string grammar_of(const Value& value) {
  if (const std::string* text = value.reveal()) return *text;
  const Value* columns = value.map() ? value.find("zip") : nullptr;
  if (!columns || !columns->map()) return element_text(value);
  std::string text;
  for (const Entry& column : *columns->map())
    text += (text.empty() ? "" : ",") + column.key + "=" + element_text(column.value);
  return "zip(" + text + ")";
}

/// Reads `sweep.params` of a recipe: {key: [values], other: "range(0,3)", rows: {zip: {a: [1, 2],
/// b: [3, 4]}}}.
std::vector<Override> params_of(const Value& recipe, const Composer& composer, Sources& sources,
                                Diagnostics& errors) {
  std::vector<Override> result;
  const Value* params = at_key(recipe, "sweep.params");
  if (!params || !params->map()) return result;
  for (const Entry& entry : *params->map()) {
    const bool is_grammar = entry.value.text() || entry.value.map();
    const std::string place = place_text(entry.key_where);
    Result<Override> read = parse_override(
        sources.add("sweep.params, " + place, entry.key + "=" + grammar_of(entry.value)));
    if (!read) {
      add(errors, read.errors());
      continue;
    }
    if (entry.value.list()) {
      read->value.reset();
      read->sweep = Sweep{.where = entry.value.where, .choices = *entry.value.list()};
    } else if (!is_grammar) {
      read->value = entry.value;
    }
    Result<std::vector<Override>> meant = apply_alias(*read, composer.aliases());
    if (!meant) {
      add(errors, meant.errors());
      continue;
    }
    result.insert(result.end(), meant->begin(), meant->end());
  }
  return result;
}

bool sets_the_same(const Override& a, const Override& b) {
  return a.key == b.key && a.package == b.package;
}

/// Collects the errors and warnings of all trials, each one only once.
class FindingsOfTrials {
 public:
  void add(const Diagnostics& found, const PreparedTrial& job) {
    for (const Diagnostic& one : found) {
      const auto key = std::make_tuple(one.where.source, one.where.line, one.where.column,
                                       one.pointer, one.message);
      const auto [known, is_new] = places_.try_emplace(key, findings_.size());
      if (is_new) findings_.push_back({one, 0, texts(job)});
      ++findings_[known->second].jobs;
    }
  }
  bool empty() const { return findings_.empty(); }

  /// Returns the findings sorted by location, with a note on those that affect only some of the
  /// trials.
  Diagnostics all(std::size_t jobs, const Sources& sources) const {
    Diagnostics result;
    for (const Finding& finding : findings_) {
      result.push_back(finding.diagnostic);
      if (finding.jobs == jobs) continue;
      result.back().notes.push_back({{},
                                     "in " + std::to_string(finding.jobs) + " of " +
                                         std::to_string(jobs) + " runs; the first is " +
                                         finding.first});
    }
    sort_by_place(result, sources);
    return result;
  }

 private:
  struct Finding {
    Diagnostic diagnostic;
    std::size_t jobs;
    std::string first;  // the first of these trials
  };

  static std::string texts(const PreparedTrial& job) {
    std::string text = "number " + std::to_string(job.number) + ":";
    for (const Override& override : job.overrides) text += " " + override_text(override);
    return text;
  }

  std::map<std::tuple<const SourceText*, int, int, std::string, std::string>, std::size_t> places_;
  std::vector<Finding> findings_;
};

/// Returns an error if the groups chosen by a trial lead to a different `sweep`, and thus to other
/// trials.
Diagnostics check_same_sweep(const Composition& job, const Composition& first) {
  const Value* sweep = job.unresolved.find("sweep");
  const Value* expected = first.unresolved.find("sweep");
  if (!sweep && !expected) return {};
  // NaN values are never equal as data, but they are equal as JSON.
  if (sweep && expected && (same_data(*sweep, *expected) || to_json(*sweep) == to_json(*expected)))
    return {};
  return {{ErrorCode::kBadSweep, (sweep ? sweep : expected)->where, "/sweep",
           "'sweep' is not the same in all runs of the sweep",
           "do not sweep over a key that adds or changes 'sweep': give that key one value"}};
}

/// Adds errors for interpolations in `sweep`, which is read before interpolations are resolved,
/// since their values may differ between trials.
void check_written_out(const Value& recipe, Diagnostics& errors) {
  for (const char* key : {"sweep", "sweep.params", "sweep.seed", "sweep.samples"}) {
    const Value* value = at_key(recipe, key);
    if (!value || !is_interpolation(*value)) continue;
    errors.push_back({ErrorCode::kBadSweep, value->where, "",
                      "'" + std::string(key) + "' is read before interpolations are resolved",
                      "write the value; only the values in sweep.params may be interpolations"});
  }
}

/// Validates `sweep` against its schema, before any trials exist.
void check_schema(const Value& recipe, const SchemaSet& schemas, Diagnostics& errors) {
  const Value* sweep = recipe.find("sweep");
  if (!sweep) return;
  Value alone{Value::Map{{"schema", {}, {std::int64_t{1}, {}}}, {"sweep", sweep->where, *sweep}},
              {}};
  add(errors, schemas.validate(alone));
}

void erase(Value* map, std::string_view key) {
  if (map && map->map())
    std::erase_if(*map->map(), [&](const Entry& entry) { return entry.key == key; });
}

/// Replaces a trial's `threads: auto` with a number of threads per rank. The ranks divide up the
/// trial's share of the processor or, on a cluster, the `cores` of a task on each of `nodes`
/// machines.
void share_threads(Value& recipe, std::int64_t slots, std::optional<std::int64_t> cores,
                   std::int64_t nodes) {
  Value* threads = recipe.find("threads");
  if (!threads || !threads->says("auto")) return;
  const auto of_rank = [&](std::int64_t all) {
    return std::max<std::int64_t>(1, all * nodes / ranks_of(recipe));
  };
  if (cores) threads->data = of_rank(*cores);
  else if (slots > 1) threads->data = of_rank(threads_of_slot(slots));
}

/// Returns the largest number of epochs of any training stage in a recipe; nullopt if none
/// specifies a number.
std::optional<std::int64_t> epochs_of(const Value& recipe) {
  std::optional<std::int64_t> most;
  for (const Entry& stage : *recipe.map()) {
    const Value* epochs = stage.value.map() ? stage.value.find("epochs") : nullptr;
    const auto* number = epochs ? std::get_if<std::int64_t>(&epochs->data) : nullptr;
    if (number) most = std::max(*number, most.value_or(0));
  }
  return most;
}

/// Reads `sweep.asha` of a valid recipe into `asha`; does nothing if the recipe has none. Unless
/// `last` is given, trials are compared for the last time one epoch before the shortest training
/// stage ends.
Diagnostics see_asha(const Value& recipe, const Graph& graph, const SchemaSet& schemas,
                     std::optional<AshaOptions>& asha) {
  const Value* given = at_key(recipe, "sweep.asha");
  if (!given || !given->map()) return {};
  const auto integer = [&](const char* key) -> std::optional<std::int64_t> {
    const auto* number = std::get_if<std::int64_t>(&given->find(key)->data);
    return number ? std::optional(*number) : std::nullopt;
  };
  const std::string* named = given->find("metric")->text();
  auto metric =
      named ? metric_of_trials(*named, {nodes_of_trial(graph)}, schemas, Compared::kWhileTraining)
            : monitored_metric(graph);
  if (!metric) {
    Diagnostic error = metric.errors().front();
    return {{ErrorCode::kBadSweep, given->where, "/sweep/asha/metric", std::move(error.message),
             std::move(error.help)}};
  }
  if (!asha) {
    asha = {.metric = *metric,
            .first = *integer("first"),
            .factor = *integer("factor"),
            .last = integer("last")};
  }
  const auto epochs = epochs_of(recipe);
  if (!integer("last") && epochs)
    asha->last = std::min(asha->last.value_or(*epochs - 1), *epochs - 1);
  return {};
}

/// Composes, validates and compiles one trial, and returns its errors. `first` is the composition
/// from which the trials were listed, or null if it has errors.
Diagnostics prepare_trial(Composer& composer, const SchemaSet& schemas, const Composition* first,
                          PreparedTrial& job, Diagnostics& warnings, Sources& sources,
                          std::int64_t slots, PreparedSweep& sweep) {
  auto composition = composer.compose(job.overrides);
  if (!composition) return composition.errors();
  if (first) {
    if (auto errors = check_same_sweep(*composition, *first); !errors.empty()) return errors;
  }
  warnings = std::move(composition->warnings);
  erase(composition->unresolved.find("sweep"), "params");  // may be long, and has already been read
  auto valid = composer.validated(*composition, &warnings);
  if (!valid) return valid.errors();
  auto recipe = make_recipe(*std::move(valid), schemas, &sources);
  if (!recipe) return recipe.errors();
  if (chooses_ranks(recipe->resolved)) {
    return {{ErrorCode::kOptionConflict, at_key(recipe->resolved, "device.count")->where,
             "/device/count",
             "device.count: auto cannot be used in a sweep, which reserves the devices of a trial "
             "before the trial is planned",
             "set a number; `retort plan` with device.count=auto shows which one is enough"}};
  }
  const auto graph = compile(*recipe, schemas);
  if (!graph) return graph.errors();
  std::ranges::move(without_effect(composition->overrides, *recipe, *graph, schemas),
                    std::back_inserter(warnings));
  if (auto errors = shown_secrets(recipe->resolved, {"sweep.dir", "sweep.launcher"});
      !errors.empty())
    return errors;
  job.recipe = std::move(recipe->resolved);
  if (auto errors = run_folder_of_trial(job.recipe); !errors.empty()) return errors;
  if (const Value* given = at_key(job.recipe, "sweep.dir");
      given && given->text() && sweep.dir.empty())
    sweep.dir = *given->text();
  if (auto errors = see_asha(job.recipe, *graph, schemas, sweep.asha); !errors.empty())
    return errors;
  sweep.nodes.insert(nodes_of_trial(*graph));
  if (const Value* given = at_key(job.recipe, "sweep.launcher"); given && sweep.launcher.is_null())
    sweep.launcher = *given;
  const auto cores = cores_of_task(job.recipe);
  const std::int64_t nodes = nodes_of_task(job.recipe);
  erase(&job.recipe, "sweep");  // a trial has no sweep of its own
  if (const Value* hooks = job.recipe.find("hooks")) {
    warnings.push_back({ErrorCode::kOptionConflict,
                        hooks->where,
                        "/hooks",
                        "'hooks' has no effect: the trials of a sweep do not run hooks",
                        "leave it out",
                        {},
                        Severity::kWarning});
    erase(&job.recipe, "hooks");
  }
  share_threads(job.recipe, slots, cores, nodes);
  job.hash = recipe_hash(job.recipe);
  return {};
}

/// Returns the recipe without its names and its notice, which do not affect a result.
Value without_labels(Value recipe) {
  for (const char* key : {"name", "notice", "aliases"}) erase(&recipe, key);
  return recipe;
}

void warn_of_repeats(const std::vector<PreparedTrial>& jobs, Diagnostics& warnings) {
  std::multimap<std::string, const PreparedTrial*>
      unlike;  // grouped by hash, which does not depend on secrets
  std::size_t repeats = 0;
  std::string example;
  for (const PreparedTrial& job : jobs) {
    const Value recipe = without_labels(job.recipe);
    const std::string hash = recipe_hash(recipe);
    const auto [begin, end] = unlike.equal_range(hash);
    const auto known = std::find_if(begin, end, [&](const auto& other) {
      return same_data(without_labels(other.second->recipe), recipe);
    });
    if (known == end) {
      unlike.emplace(hash, &job);
    } else if (repeats++ == 0) {
      example = "run " + std::to_string(job.number) + " is the same as run " +
                std::to_string(known->second->number);
    }
  }
  if (repeats == 0) return;
  warnings.push_back({ErrorCode::kRepeatedTrial,
                      {},
                      "",
                      std::to_string(repeats) +
                          (repeats == 1 ? " run repeats another: " : " runs repeat others: ") +
                          example,
                      "",
                      {},
                      Severity::kWarning});
}

}  // namespace

std::int64_t threads_of_slot(std::int64_t slots) {
  return std::max<std::int64_t>(
      1, static_cast<std::int64_t>(std::thread::hardware_concurrency()) / slots);
}

Result<PreparedSweep> prepare_sweep(const NamedRecipe& named, const SchemaSet& schemas,
                                    Sources& sources, std::int64_t slots) {
  auto composer = open_recipe(named, schemas, sources);
  if (!composer) return composer.errors();
  Diagnostics errors;
  const auto base = composer->compose(first_values(*composer));
  if (base) {
    check_written_out(base->unresolved, errors);
    if (errors.empty()) check_schema(base->unresolved, schemas, errors);
  }
  std::vector<Override> overrides =
      base ? params_of(base->unresolved, *composer, sources, errors) : std::vector<Override>();
  std::erase_if(overrides, [&](const Override& param) {
    return std::ranges::any_of(composer->overrides(),
                               [&](const Override& typed) { return sets_the_same(param, typed); });
  });
  overrides.insert(overrides.end(), composer->overrides().begin(), composer->overrides().end());
  const auto integer = [&](const char* key) -> std::optional<std::uint64_t> {
    const Value* value = base ? at_key(base->unresolved, key) : nullptr;
    const auto* number = value ? std::get_if<std::int64_t>(&value->data) : nullptr;
    if (!number || *number < 0) return std::nullopt;  // the schema has reported it
    return static_cast<std::uint64_t>(*number);
  };
  const auto list = TrialList::make(
      overrides, composer->configs(),
      {.seed = integer("sweep.seed").value_or(0), .samples = integer("sweep.samples")});
  if (!list) {
    add(errors, list.errors());
    if (!base) add(errors, base.errors());
  }
  if (!errors.empty()) {
    sort_by_place(errors, sources);
    return errors;
  }

  PreparedSweep sweep;
  FindingsOfTrials wrong, doubtful;
  for (std::uint64_t number = 0; number < list->size(); ++number) {
    PreparedTrial job{.number = number, .overrides = (*list)[number], .recipe = {}, .hash = {}};
    Diagnostics warnings;
    wrong.add(prepare_trial(*composer, schemas, base ? &*base : nullptr, job, warnings, sources,
                            slots, sweep),
              job);
    doubtful.add(warnings, job);
    sweep.jobs.push_back(std::move(job));
  }
  if (!wrong.empty()) return wrong.all(sweep.jobs.size(), sources);
  sweep.warnings = doubtful.all(sweep.jobs.size(), sources);
  warn_of_repeats(sweep.jobs, sweep.warnings);
  return sweep;
}

}  // namespace runner
