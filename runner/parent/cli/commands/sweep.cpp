#include "runner/parent/cli/commands/sweep.h"

#include <malloc.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <thread>

#include <nlohmann/json.hpp>

#include "runner/parent/cli/graph_worker.h"
#include "runner/parent/cli/launched.h"
#include "runner/parent/cli/mlflow_export.h"
#include "runner/parent/cli/prepare.h"
#include "runner/parent/cli/prepare_sweep.h"
#include "runner/parent/cli/program.h"
#include "runner/parent/cli/sweep_check.h"
#include "runner/parent/config/override.h"
#include "runner/parent/config/secret.h"
#include "runner/parent/config/yaml_reader.h"
#include "runner/parent/config/yaml_writer.h"
#include "runner/parent/record/run_folder.h"
#include "runner/parent/sweep/run_task.h"
#include "runner/parent/sweep/run_trials.h"
#include "runner/parent/sweep/slurm_launcher.h"
#include "runner/parent/sweep/sweep_journal.h"
#include "runner/parent/sweep/sweep_results.h"
#include "runner/parent/sweep/sweep_tensorboard.h"
#include "runner/parent/sweep/task_needs.h"
#include "runner/shared/disk/installation.h"
#include "runner/shared/text/printable.h"

namespace runner {
namespace {

constexpr std::size_t kShownDigits = 10;  // number of hash digits shown

/// Prints a line for each trial: its number, the first digits of its hash, and its settings.
void print_trials(const std::vector<PreparedTrial>& jobs, std::ostream& out) {
  const std::size_t width = std::to_string(jobs.size() - 1).size();
  for (const PreparedTrial& job : jobs) {
    const std::string number = std::to_string(job.number);
    out << std::string(width - number.size(), ' ') << number << "  "
        << job.hash.substr(0, kShownDigits);
    const char* gap = "  ";
    for (const Override& override : job.overrides)
      out << std::exchange(gap, " ") << override_text(override);
    out << '\n';
  }
}

nlohmann::ordered_json trials_json(const std::vector<PreparedTrial>& jobs) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const PreparedTrial& job : jobs) {
    nlohmann::ordered_json overrides = nlohmann::ordered_json::array();
    for (const Override& override : job.overrides) overrides.push_back(override_text(override));
    json.push_back(
        {{"number", job.number}, {"hash", job.hash}, {"overrides", std::move(overrides)}});
  }
  return json;
}

void print_results(const SweepJournal& journal, const std::string& metric, Console& console) {
  const SweepResults results =
      read_results(journal.folder(), journal.plan(), metric, &console.sources);
  const nlohmann::ordered_json json = write_results(journal, results);
  write_experiment(journal.folder(), journal.plan(), results);
  if (console.json) print_result(console, "sweep_results/1", json);
  else
    console.out << results_text(results, console.style) << '\n'
                << printable(journal.folder().string()) << '\n';
}

Result<SweepInSlots> listed_sweep(const NamedRecipe& named, const SchemaSet& schemas,
                                  std::int64_t slots, Sources& sources) {
  auto sweep = prepare_sweep(named, schemas, sources, slots);
  if (!sweep) return sweep.errors();
  return SweepInSlots{*std::move(sweep), slots};
}

std::vector<const Value*> recipes_of(const PreparedSweep& sweep) {
  std::vector<const Value*> recipes;
  for (const PreparedTrial& job : sweep.jobs) recipes.push_back(&job.recipe);
  return recipes;
}

/// Returns the settings in sweep.launcher, with the cores and GPUs that the trials need; null for
/// trials on this machine.
nlohmann::ordered_json launcher_settings(const PreparedSweep& sweep) {
  if (sweep.launcher.is_null()) return nullptr;
  nlohmann::ordered_json settings = to_json(sweep.launcher);
  complete_task(settings, recipes_of(sweep));
  return settings;
}

ExitCode go_through(SweepJournal& journal, const SweepFlags& flags, Console& console) {
  const auto launcher = launcher_of(journal.folder());
  if (!launcher) return report(console, launcher.errors());
  TrialSurroundings surroundings = trial_surroundings(flags, console);
  if (!console.json) surroundings.out = &console.out;
  surroundings.display = standard_error_display(console.verbosity);
  const ExitCode code = (*launcher)->run(journal, trial_options(flags), surroundings);
  track_end_of_sweep(journal.folder(), code, console);
  if (console.json || (*launcher)->has_results()) print_results(journal, flags.metric, console);
  // kBadRecipe means that no trial records the metric, so a resumed sweep would end in the same
  // way.
  if (journal.plan().is_asked && !console.is_quiet())
    console.err << "the sampler can continue with `retort sweep ask-tell resume "
                << printable(journal.folder().string()) << "`\n";
  if (code != ExitCode::kDone && code != ExitCode::kBadRecipe && !console.is_quiet())
    console.err << "continue with `retort sweep resume " << printable(journal.folder().string())
                << "`\n";
  return code;
}

/// Plans the remaining trials again and returns how many of them can run at once.
Result<std::int64_t> slots_of_resumed_sweep(const SweepJournal& journal, const SweepFlags& flags,
                                            Console& console) {
  if (flags.slots.slots == 1 && !flags.slots.is_auto) return 1;
  const SchemaSet& schemas = shipped_schemas();
  SlotMemory memory = slot_memory(schemas, flags.reuse, flags.recipe.strict, flags.log, console);
  std::int64_t threads = 1;
  for (const Trial& trial : journal.trials()) {
    const bool is_over =
        trial.state == TrialState::kFinished || trial.state == TrialState::kStopped;
    const auto recipe =
        is_over ? std::nullopt
                : trial_recipe(SweepLayout(journal.folder()), trial.number, console.sources);
    if (!recipe) continue;  // already checked
    memory.add(trial.number, *recipe);
    const Value* const written = recipe->find("threads");
    const auto* const number = written ? std::get_if<std::int64_t>(&written->data) : nullptr;
    threads = std::max(threads, number ? *number * ranks_of(*recipe)
                                       : std::int64_t{std::thread::hardware_concurrency()});
  }
  return choose_slots(memory, flags.slots, threads, console);
}

/// Like metric_of_trials(), for a sweep that was started earlier.
Result<std::string> metric_of_recorded(const std::filesystem::path& folder,
                                       const std::vector<Trial>& trials, const std::string& wanted,
                                       Sources& sources) {
  if (wanted == "auto") return wanted;
  TrialNodes nodes;
  for (const Trial& trial : trials) {
    const auto recipe =
        prepare_recorded(SweepLayout(folder).recipe(trial.number), {}, shipped_schemas(), sources);
    if (recipe) nodes.insert(nodes_of_trial(recipe->graph));  // an error was already reported
  }
  return metric_of_trials(wanted, nodes, shipped_schemas());
}

ExitCode resume_sweep(const std::filesystem::path& folder, const SweepFlags& flags,
                      Console& console) {
  auto journal = reopen_sweep(folder, console);
  if (!journal) return report(console, journal.errors());
  const auto& words = flags.recipe.overrides;
  NamedRecipe named = flags.recipe;
  named.name = words.size() > 1 ? words[1] : "";
  named.overrides.erase(named.overrides.begin(),
                        named.overrides.begin() + (words.size() > 1 ? 2 : 1));
  const bool is_auto = flags.slots.is_auto;
  Result<std::int64_t> slots =
      is_auto ? slots_of_resumed_sweep(*journal, flags, console) : flags.slots.slots;
  if (!slots) return report(console, slots.errors());
  const Diagnostics found =
      check_resumed_sweep(*journal, named, *slots, flags.force, console.sources);
  if (const Diagnostics errors = errors_among(found); !errors.empty())
    return report(console, errors);
  warn(console, found);
  if (!is_auto)
    slots = slots_of_resumed_sweep(*journal, flags, console);  // runs after the checks that need no
                                                               // planning
  if (!slots) return report(console, slots.errors());
  const auto metric =
      metric_of_recorded(journal->folder(), journal->trials(), flags.metric, console.sources);
  if (!metric) return report(console, metric.errors());
  SweepFlags in_slots = flags;
  in_slots.slots.slots = *slots;
  in_slots.metric = *metric;
  return go_through(*journal, in_slots, console);
}

ExitCode show_sweep(const std::filesystem::path& folder, const SweepFlags& flags,
                    Console& console) {
  const auto plan = SweepJournal::read(folder);
  if (!plan) return report(console, plan.errors());
  const auto metric = metric_of_recorded(folder, plan->trials, flags.metric, console.sources);
  if (!metric) return report(console, metric.errors());
  const SweepResults results = read_results(folder, *plan, *metric, &console.sources);
  nlohmann::ordered_json json = to_json(results);
  json["folder"] = folder.string();
  if (console.json) print_result(console, "sweep_results/1", json);
  else console.out << results_text(results, console.style);
  return ExitCode::kDone;
}

/// Implements `retort sweep task FOLDER INDEX`, which is called by the script of a cluster task.
ExitCode task_of_sweep(const std::vector<std::string>& words, Console& console) {
  const auto variable = [](const char* name) {
    const char* const value = std::getenv(name);
    return std::string(value ? value : "");
  };
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  const std::string task = variable("RETORT_TASK");
  const auto code =
      run_task(words[0], words[1],
               {.program = own_executable(),
                .name = (task.empty() ? "" : "task " + task + " ") + "on " + host.data(),
                .requeue = variable("RETORT_REQUEUE"),
                .ranks = variable("RETORT_RANKS")});
  return code ? *code : report(console, code.errors());
}

/// Implements `retort sweep`. Its actions, such as `sweep resume DIR`, are given instead of the
/// recipe.
ExitCode sweep(SweepFlags flags, Console& console) {
  const auto slots = slot_request(flags.slots_text);
  if (!slots) return report(console, slots.errors());
  flags.slots = *slots;
  const std::string& action = flags.recipe.name;
  const bool is_asked_again = action == "ask-tell" && !flags.recipe.overrides.empty() &&
                              flags.recipe.overrides[0] == "resume";
  if (flags.force && action != "resume" && !is_asked_again) {
    return report(console, {{ErrorCode::kUsage,
                             {},
                             "",
                             "--force is for `retort sweep resume`",
                             "leave it out: a new sweep has nothing that could have changed"}});
  }
  if (action == "ask-tell") return ask_and_tell(flags, console);
  const std::size_t words = flags.recipe.overrides.size();
  const bool is_task = action == "task" && words == 2;
  if (action != "resume" && action != "show" && !is_task) return begin_sweep(flags, console);
  if (words == 0 || (words > 1 && action == "show")) {
    return report(
        console,
        {{ErrorCode::kUsage,
          {},
          "",
          "`retort sweep " + action + "` takes the folder of one sweep",
          "give the folder that `retort sweep` printed at its end; `sweep resume` also takes the "
          "recipe and overrides, to check that the sweep was started with them"}});
  }
  if (!flags.launcher.empty()) {
    return report(
        console,
        {{ErrorCode::kUsage,
          {},
          "",
          "`retort sweep " + action + "` does not take --launcher",
          "a sweep continues where it was started: on the cluster described in "
          "launch/launcher.json in its folder, or on this machine if there is no launch/"}});
  }
  const std::filesystem::path folder = flags.recipe.overrides.front();
  try {
    if (is_task) return task_of_sweep(flags.recipe.overrides, console);
    return action == "resume" ? resume_sweep(folder, flags, console)
                              : show_sweep(folder, flags, console);
  } catch (const WriteError& error) {
    return report(console, {error.diagnostic()});
  }
}

Invocation declare_sweep() {
  const auto flags = std::make_shared<SweepFlags>();
  Invocation verb;
  verb.add_recipe(flags->recipe);
  verb.no_recipes = {"resume", "show", "ask-tell", "task"};
  verb.add({.name = "--dry-run",
            .value = &flags->dry_run,
            .summary = "List the trials without starting them"});
  verb.add({.name = "--slots",
            .value = &flags->slots_text,
            .summary = "Trials to run at once; their memory plans must fit together, and they "
                       "share the processor's threads. auto: as many as fit",
            .type = "N",
            .shows_default = true});
  verb.add({.name = "--retries",
            .value = &flags->retries,
            .summary = "How many times to retry a failed trial, each time from its last checkpoint",
            .type = "N",
            .range = {0, 1000},
            .shows_default = true});
  verb.add({.name = "--timeout",
            .value = &flags->time_out_minutes,
            .summary = "Time limit per attempt in minutes; on timeout the trial saves and counts "
                       "as failed; 0: no limit",
            .type = "MIN",
            .range = {0, 1000000},
            .shows_default = true});
  verb.add({.name = "--fail-fast",
            .value = &flags->fail_fast,
            .summary = "Stop when a trial fails, instead of continuing with the others"});
  verb.add({.name = "--launcher",
            .value = &flags->launcher,
            .summary = "Where to run the trials: slurm submits jobs, kubernetes prints a manifest; "
                       "default: this machine. `sweep resume` uses the same launcher again",
            .type = "NAME"});
  verb.add({.name = "--metric",
            .value = &flags->metric,
            .summary = "Compare trials by this metric, such as validation/loss; for a loss, lower "
                       "is better. auto: the metric that the training monitors",
            .type = "NAME",
            .shows_default = true});
  add_reuse(verb, flags->reuse,
            "If trials share results, compute them only once, for every stage including training; "
            "default: only for cacheable stages, such as features");
  verb.add(
      {.name = "--force",
       .value = &flags->force,
       .summary = "resume: continue even if input files have changed since the sweep started"});
  add_log_level(verb, flags->log, LogPlace::kFile);
  add_grace(verb, flags->log);
  verb.run = [flags](Console& console) { return sweep(*flags, console); };
  return verb;
}

}  // namespace

/// If the trials run on a cluster, returns an error for each option that only affects trials on
/// this machine.
Diagnostics misused_on_cluster(const SweepFlags& flags, const PreparedSweep& sweep) {
  Diagnostics errors;
  if (sweep.launcher.is_null()) return errors;
  const auto refuse = [&](bool is_asked, const std::string& pointer, const std::string& what,
                          const std::string& help) {
    if (is_asked) errors.push_back({ErrorCode::kUsage, {}, pointer, what, help});
  };
  refuse(flags.slots.slots > 1 || flags.slots.is_auto, "",
         "--slots divides this machine, but the trials run on a cluster",
         "limit the running tasks with sweep.launcher.at_once");
  refuse(flags.reuse.all || flags.reuse.none, "",
         "--reuse and --no-reuse are for trials on this machine, but these run on a cluster",
         "leave them out");
  refuse(sweep.asha.has_value(), "/sweep/asha",
         "sweep.asha stops trials on this machine early, but these run on a cluster",
         "leave out sweep.asha (sweep.asha=null), or the launcher");
  const Diagnostics undivided = undivided_ranks(sweep.launcher, recipes_of(sweep));
  errors.insert(errors.end(), undivided.begin(), undivided.end());
  const Value* const named = sweep.launcher.find("kind");
  const bool is_slurm = named && named->says("slurm");
  const ScriptKind kind = is_slurm ? ScriptKind::kSlurm : ScriptKind::kKubernetes;
  if (auto unfit =
          unfit_for_script(std::filesystem::current_path() / sweep.dir, "the sweep's folder", kind))
    errors.push_back(*std::move(unfit));
  return errors;
}

ExitCode begin_sweep(const SweepFlags& flags, Console& console) {
  if (const auto errors = refused_under_launcher(
          "sweep", "start `retort sweep` without the launcher: it starts the trials itself");
      !errors.empty())
    return report(console, errors);
  Sources& sources = console.sources;
  const SchemaSet& schemas = shipped_schemas();
  NamedRecipe named = flags.recipe;
  if (!flags.launcher.empty())
    named.overrides.insert(named.overrides.begin(), "+launcher=" + flags.launcher);
  // A dry run determines the slots only for --slots auto, because the hashes then depend on them.
  const bool is_list = flags.dry_run && !flags.slots.is_auto;
  auto fitted =
      is_list ? listed_sweep(named, schemas, flags.slots.slots, sources)
              : prepare_in_slots(named, schemas, flags.slots, flags.reuse, flags.log, console);
  if (!fitted) return report(console, fitted.errors());
  const PreparedSweep* const prepared = &fitted->sweep;
  if (const Diagnostics errors = misused_on_cluster(flags, *prepared); !errors.empty())
    return report(console, errors);
  const auto metric = metric_of_trials(flags.metric, prepared->nodes, schemas);
  if (!metric) return report(console, metric.errors());
  warn(console, prepared->warnings);
  if (flags.dry_run) {
    if (console.json) print_result(console, "sweep/1", {{"runs", trials_json(prepared->jobs)}});
    else print_trials(prepared->jobs, console.out);
    return ExitCode::kDone;
  }
  for (const PreparedTrial& job : prepared->jobs)
    if (const auto errors = untrusted_code(job.recipe, schemas, sources); !errors.empty())
      return report(console, errors);
  if (prepared->launcher.is_null())
    if (const auto errors = refused_tracking(recipes_of(*prepared)); !errors.empty())
      return report(console, errors);
  const auto here = std::filesystem::current_path();
  const auto folder = make_sweep_folder(prepared->dir);
  if (!folder) return report(console, folder.errors());
  try {
    const SweepLayout layout(*folder);
    for (const PreparedTrial& job : prepared->jobs)
      if (const Diagnostics errors = write_recipe(job, layout, sources); !errors.empty())
        return report(console, errors);
    sync_folder(layout.recipes());
    SweepPlan plan{.recipe = flags.recipe.name,
                   .overrides = {},
                   .folder = here,
                   .trials = {},
                   .asha = prepared->asha,
                   .recipe_folder = recipe_folder(prepared->jobs.front().recipe)};
    for (const std::string& typed : flags.recipe.overrides)
      plan.overrides.push_back(without_secrets(typed));
    for (const PreparedTrial& job : prepared->jobs) {
      plan.trials.push_back({.number = job.number, .hash = job.hash, .settings = {}});
      for (const Override& override : job.overrides)
        plan.trials.back().settings.push_back(override_text(override));
    }
    keep_launcher(launcher_settings(*prepared), *folder);
    SweepJournal journal = SweepJournal::make(*folder, std::move(plan));
    SweepFlags in_slots = flags;
    in_slots.slots.slots = fitted->slots;
    in_slots.metric = *metric;
    fitted->sweep = {};
    malloc_trim(0);  // each trial is a fork of this process and copies its memory
    return go_through(journal, in_slots, console);
  } catch (const WriteError& error) {
    return report(console, {error.diagnostic()});
  }
}

const Command kSweepCommand = {
    "sweep",
    "Runs a recipe once for every combination of given values; `sweep resume DIR` continues a "
    "sweep.",
    "retort sweep classify data.root=photos train.epochs=5,10 'seed=range(0,3)' --slots 2",
    declare_sweep};

}  // namespace runner
