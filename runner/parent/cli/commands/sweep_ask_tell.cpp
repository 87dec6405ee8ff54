#include <unistd.h>

#include <nlohmann/json.hpp>

#include "runner/parent/cli/commands/sweep.h"
#include "runner/parent/cli/graph_worker.h"
#include "runner/parent/cli/prepare.h"
#include "runner/parent/cli/prepare_sweep.h"
#include "runner/parent/cli/reserved_keys.h"
#include "runner/parent/cli/sweep_check.h"
#include "runner/parent/config/override.h"
#include "runner/parent/config/secret.h"
#include "runner/parent/sweep/ask_tell.h"
#include "runner/shared/value/json_fields.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;

/// Prepares the single trial described by a recipe and overrides. Several trials are an error,
/// since the values are chosen by the sampler.
Result<PreparedSweep> prepare_one(const NamedRecipe& named, const SchemaSet& schemas,
                                  Sources& sources, std::int64_t slots) {
  auto prepared = prepare_sweep(named, schemas, sources, slots);
  if (!prepared || prepared->jobs.size() == 1) return prepared;
  return Diagnostic{
      ErrorCode::kBadSweep,
      {},
      "",
      "a key has several values, but the sampler chooses each trial's values",
      "give each key one value on the command line, and add ~sweep.params if the recipe sets it"};
}

/// Converts settings, {"train.epochs": 5, "model": "lora"}, to overrides.
std::vector<std::string> overrides_of(const Json& settings) {
  std::vector<std::string> overrides;
  for (const auto& [key, value] : settings.items())
    overrides.push_back(key + "=" + element_text(from_json(value)));
  return overrides;
}

/// Returns the results of a trial that has ended, for the sampler.
Json measured(const SweepJournal& journal, const Trial& trial, const std::string& metric) {
  SweepPlan plan;
  plan.trials = {trial};
  plan.asha = journal.plan().asha;
  const SweepResults results = read_results(journal.folder(), plan, metric);
  Json metrics = Json::object();
  for (const auto& [name, value] : results.trials.front().metrics)
    metrics[name] = number_json(value);
  const Json value = results.objective && metrics.contains(results.objective->metric)
                         ? metrics[results.objective->metric]
                         : Json(nullptr);
  Json told = {{"value", value}};
  if (results.objective) {
    told["metric"] = results.objective->metric;
    told["best"] = best_word(*results.objective);
  }
  told["metrics"] = std::move(metrics);
  return told;
}

/// Prepares the recipe on which all trials are based. If the number of slots is auto, replaces it
/// in `flags`.
Result<PreparedSweep> base_of_trials(SweepFlags& flags, const SchemaSet& schemas,
                                     SlotMemory& memory, Console& console) {
  const std::int64_t most = flags.slots.is_auto ? slots_for_threads(1) : flags.slots.slots;
  auto base = prepare_one(flags.recipe, schemas, console.sources, most);
  if (!base) return base;
  if (Diagnostics errors = untrusted_code(base->jobs.front().recipe, schemas, console.sources);
      !errors.empty())
    return errors;
  if (!flags.slots.is_auto) return base;
  const Value* const threads = base->jobs.front().recipe.find("threads");
  const auto* const number = threads ? std::get_if<std::int64_t>(&threads->data) : nullptr;
  for (std::int64_t slot = 0; slot < most && most > 1; ++slot)
    memory.add(static_cast<std::uint64_t>(slot), base->jobs.front().recipe);
  const std::int64_t ranks = ranks_of(base->jobs.front().recipe);
  const auto slots = choose_slots(memory, flags.slots, (number ? *number : 1) * ranks, console);
  if (!slots) return slots.errors();
  for (std::int64_t slot = 0; slot < most; ++slot) memory.forget(static_cast<std::uint64_t>(slot));
  flags.slots = {.slots = *slots};
  return base;
}

/// Returns an error if a trial chosen by the sampler does not fit in memory with the trials that
/// have not ended.
Diagnostics check_memory(SlotMemory& memory, const SweepJournal& journal, const PreparedTrial& job,
                         std::int64_t slots) {
  if (slots == 1) return {};
  for (const Trial& trial : journal.trials())
    if (trial.state == TrialState::kFinished || trial.state == TrialState::kStopped)
      memory.forget(trial.number);
  memory.add(job.number, job.recipe);
  Diagnostics errors = memory.check(slots);
  if (!errors.empty()) memory.forget(job.number);
  return errors;
}

/// The state of a sweep with a sampler. Borrows all arguments of the constructor.
class AskedSweep {
 public:
  AskedSweep(SweepJournal& journal, const SweepFlags& flags, const SchemaSet& schemas,
             SlotMemory& memory, Console& console)
      : journal_(journal),
        layout_(journal.folder()),
        flags_(flags),
        schemas_(schemas),
        memory_(memory),
        console_(console) {}

  ExitCode operator()() {
    AskTell sampler(
        STDIN_FILENO, console_.out,
        [this](std::uint64_t ask, const Json& settings) { return add(ask, settings); },
        [this](const Trial& trial) { return measured(journal_, trial, flags_.metric); });
    sampler.say(
        {{"ask_tell", 1}, {"folder", journal_.folder().string()}, {"slots", flags_.slots.slots}});
    sampler.go_on(journal_.trials(),
                  [this](const Trial& trial) { return is_over(layout_, trial); });
    const ExitCode code =
        run_trials(journal_, trial_options(flags_), trial_surroundings(flags_, console_), &sampler);
    const SweepResults results =
        read_results(journal_.folder(), journal_.plan(), flags_.metric, &console_.sources);
    sampler.say({{"results", write_results(journal_, results)}});
    return code;
  }

 private:
  Result<std::uint64_t> add(std::uint64_t ask, const Json& settings) {
    NamedRecipe named = flags_.recipe;
    for (const auto& [key, value] : settings.items()) {
      if (!is_sweep_key(key)) continue;
      return Diagnostic{ErrorCode::kBadSweep,
                        {},
                        "",
                        "'" + key + "' is for the whole sweep, not for one trial",
                        "set it on the command line of `retort sweep ask-tell`"};
    }
    const std::vector<std::string> overrides = overrides_of(settings);
    named.overrides.insert(named.overrides.end(), overrides.begin(), overrides.end());
    auto prepared = prepare_one(named, schemas_, console_.sources, flags_.slots.slots);
    if (!prepared) return prepared.errors();
    PreparedTrial& job = prepared->jobs.front();
    job.number = journal_.trials().size();
    if (const Diagnostics errors = check_memory(memory_, journal_, job, flags_.slots.slots);
        !errors.empty())
      return errors;
    std::error_code ignored;
    std::filesystem::remove(layout_.recipe(job.number),
                            ignored);  // left behind by a process that was killed before it added
                                       // the trial
    if (const Diagnostics errors = write_recipe(job, layout_, console_.sources); !errors.empty())
      return errors;
    std::vector<std::string> texts;
    for (const std::string& override : overrides) texts.push_back(without_secrets(override));
    return journal_.add(job.hash, std::move(texts), ask);
  }

  SweepJournal& journal_;
  const SweepLayout layout_;
  const SweepFlags& flags_;
  const SchemaSet& schemas_;
  SlotMemory& memory_;
  Console& console_;
};

Diagnostic ask_tell_misused(std::string message, std::string help) {
  return {ErrorCode::kUsage, {}, "", std::move(message), std::move(help)};
}

ExitCode begin_asking(SweepFlags flags, Console& console) {
  flags.recipe.name = flags.recipe.overrides.front();
  flags.recipe.overrides.erase(flags.recipe.overrides.begin());
  const SchemaSet& schemas = shipped_schemas();
  SlotMemory memory = slot_memory(schemas, flags.reuse, flags.recipe.strict, flags.log, console);
  const auto base = base_of_trials(flags, schemas, memory, console);
  if (!base) return report(console, base.errors());
  auto metric = metric_of_trials(flags.metric, base->nodes, schemas);
  if (!metric) return report(console, metric.errors());
  flags.metric = *std::move(metric);
  if (!flags.launcher.empty() || !base->launcher.is_null()) {
    return report(
        console,
        {ask_tell_misused(
            "`retort sweep ask-tell` runs its trials on this machine, so it takes no launcher",
            "leave out --launcher and sweep.launcher")});
  }
  warn(console, base->warnings);
  const auto folder = make_sweep_folder(base->dir);
  if (!folder) return report(console, folder.errors());
  SweepPlan plan{.recipe = flags.recipe.name,
                 .overrides = {},
                 .folder = std::filesystem::current_path(),
                 .trials = {},
                 .asha = base->asha,
                 .is_asked = true,
                 .recipe_folder = recipe_folder(base->jobs.front().recipe)};
  for (const std::string& typed : flags.recipe.overrides)
    plan.overrides.push_back(without_secrets(typed));
  SweepJournal journal = SweepJournal::make(*folder, std::move(plan));
  return AskedSweep(journal, flags, schemas, memory, console)();
}

/// Implements `retort sweep ask-tell resume DIR` with the recipe and the overrides in the journal.
ExitCode go_on_asking(SweepFlags flags, Console& console) {
  if (flags.recipe.overrides.size() != 2) {
    return report(
        console,
        {ask_tell_misused("`retort sweep ask-tell resume` takes the folder of one sweep",
                          "give only the folder: the recipe and its values are recorded there")});
  }
  auto journal = reopen_sweep(flags.recipe.overrides[1], console);
  if (!journal) return report(console, journal.errors());
  if (!journal->plan().is_asked) {
    return report(
        console,
        {ask_tell_misused(
            "the trials of '" + journal->folder().string() + "' were not chosen by a sampler",
            "continue with `retort sweep resume " + journal->folder().string() + "`")});
  }
  flags.recipe.name = journal->plan().recipe;
  flags.recipe.overrides = journal->plan().overrides;
  const SchemaSet& schemas = shipped_schemas();
  SlotMemory memory = slot_memory(schemas, flags.reuse, flags.recipe.strict, flags.log, console);
  const auto base = base_of_trials(flags, schemas, memory, console);
  if (!base) return report(console, base.errors());
  auto metric = metric_of_trials(flags.metric, base->nodes, schemas);
  if (!metric) return report(console, metric.errors());
  flags.metric = *std::move(metric);
  const SweepLayout layout(journal->folder());
  for (const Trial& trial : journal->trials()) {
    const auto recipe = flags.slots.slots == 1 || is_over(layout, trial)
                            ? std::nullopt
                            : trial_recipe(layout, trial.number, console.sources);
    if (recipe) memory.add(trial.number, *recipe);
  }
  Diagnostics found = memory.check(flags.slots.slots);
  const Diagnostics changes =
      check_resumed_sweep(*journal, NamedRecipe{}, flags.slots.slots, flags.force, console.sources);
  found.insert(found.end(), changes.begin(), changes.end());
  if (const Diagnostics errors = errors_among(found); !errors.empty())
    return report(console, errors);
  warn(console, found);
  return AskedSweep(*journal, flags, schemas, memory, console)();
}

}  // namespace

ExitCode ask_and_tell(const SweepFlags& flags, Console& console) {
  const std::vector<std::string>& words = flags.recipe.overrides;
  if (words.empty()) {
    return report(console,
                  {ask_tell_misused("`retort sweep ask-tell` needs a recipe",
                                    "write `retort sweep ask-tell classify data.root=photos`, or "
                                    "`retort sweep ask-tell resume DIR`")});
  }
  try {
    return words.front() == "resume" ? go_on_asking(flags, console) : begin_asking(flags, console);
  } catch (const WriteError& error) {
    return report(console, {error.diagnostic()});
  }
}

}  // namespace runner
