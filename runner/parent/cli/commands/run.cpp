#include "runner/parent/run/run.h"

#include <cstdlib>
#include <memory>

#include <nlohmann/json.hpp>

#include "runner/parent/cli/chosen_pixels.h"
#include "runner/parent/cli/command.h"
#include "runner/parent/cli/commands/config.h"
#include "runner/parent/cli/commands/sweep.h"
#include "runner/parent/cli/fewest_ranks.h"
#include "runner/parent/cli/graph_worker.h"
#include "runner/parent/cli/launched.h"
#include "runner/parent/cli/prepare.h"
#include "runner/parent/cli/reserved_keys.h"
#include "runner/parent/cli/weights_source.h"
#include "runner/parent/run/precision_hint.h"
#include "runner/parent/sweep/run_trials.h"
#include "runner/parent/sweep/sweep_tensorboard.h"
#include "runner/shared/disk/write_error.h"

namespace runner {
namespace {

struct RunFlags {
  NamedRecipe recipe;
  bool smoke = false;
  std::int64_t ranks = 0;
  ReuseFlags reuse;
  LogFlags log;
  std::string only;
  std::string show;  ///< "job" or "all", as in Hydra: show the recipe instead
  ConfigView view;
  std::string launcher;  ///< an option of the group `launcher` that starts the run
  bool multirun = false;
  bool dry_run = false;
};

ExitCode run_recipe(const RunFlags& flags, Console& console) {
  if (!flags.show.empty() || !flags.view.info.empty())
    return show_config(flags.recipe, flags.view, console);
  const auto launched = launched_rank();
  if (!launched) return report(console, launched.errors());
  quieten_other_ranks(*launched, console);
  if (flags.multirun || !flags.launcher.empty())
    return begin_sweep({.recipe = flags.recipe,
                        .dry_run = flags.dry_run,
                        .launcher = flags.launcher,
                        .log = flags.log},
                       console);
  Sources& sources = console.sources;
  const SchemaSet& schemas = shipped_schemas();
  NamedRecipe named = flags.recipe;
  auto prepared = prepare_with_pixels(named, *launched, flags.log, console);
  if (!prepared) return report(console, prepared.errors());
  if (const auto errors = sweep_keys_of_single_run(prepared->composition); !errors.empty())
    return report(console, errors);
  prepared = with_fewest_ranks(
      *std::move(prepared),
      {.recipe = named, .log = flags.log, .reuse = flags.reuse.which(), .only = flags.only},
      console);
  if (!prepared) return report(console, prepared.errors());
  if (!flags.only.empty()) {
    auto part = only(prepared->graph, flags.only);
    if (!part) return report(console, part.errors());
    prepared->graph = std::move(*part);
  }
  if (const auto errors = refused_hooks(prepared->recipe.resolved, prepared->composition);
      !errors.empty())
    return report(console, errors);
  auto worker = worker_for(prepared->graph, prepared->recipe.resolved, schemas, flags.log);
  if (!worker) return report(console, worker.errors());
  warn(console, prepared->composition.warnings);
  show_notice(prepared->recipe.resolved, console);
  const DeviceUse use{.recipe = prepared->recipe.resolved,
                      .graph = prepared->graph,
                      .worker = *worker,
                      .reuse = flags.reuse.which(),
                      .ranks = *launched ? 1 : prepared->graph.ranks};
  auto device = take_own_device(use, console);
  if (!device) return report(console, device.errors());
  if (const auto& gpu = device->taken.device; gpu && !console.is_quiet()) {
    const std::string hint = precision_hint(prepared->graph, gpu->name, gpu->capability);
    if (!hint.empty()) console.err << hint << '\n';
  }

  const RunRequest request{
      .composition = prepared->composition,
      .recipe = prepared->recipe,
      .graph = prepared->graph,
      .sources = sources,
      .smoke = flags.smoke,
      .strict = flags.recipe.strict,
      .reuse = flags.reuse.which(),
      .device = &*device,
      .inputs = input_paths(prepared->recipe.resolved, schemas, prepared->graph.working_folder),
      .hparams =
          prepared->recipe.has_tensorboard ? hparams_of_trial(prepared->recipe.run_dir) : Hparams(),
      .launched = *launched};
  LateStorage late(disk());  // for a trial: the sweep flushes the files of several trials together
  const bool is_late = std::getenv(kFlushedBySweep) != nullptr;
  RunSurroundings here = surroundings(console, *worker, next_gpu_for(use, console),
                                      is_late ? static_cast<Storage&>(late) : disk());
  if (is_late) here.before_flush = [&late] { late.write_kept(); };
  return run(request, here);
}

Invocation declare_run() {
  const auto flags = std::make_shared<RunFlags>();
  Invocation verb;
  verb.add_recipe(flags->recipe);
  verb.add({.name = "--smoke",
            .value = &flags->smoke,
            .summary = "Run just two steps of every stage, as a quick check"});
  add_ranks(verb, "--devices", flags->ranks);
  add_reuse(verb, flags->reuse,
            "Reuse results of earlier runs for every stage, including training");
  add_log_level(verb, flags->log, LogPlace::kFile);
  add_grace(verb, flags->log);
  verb.add({.name = "--only",
            .value = &flags->only,
            .summary = "Run only this node and the nodes that it needs",
            .type = "NODE"});
  verb.add(
      {.name = "-c,--cfg",
       .value = &flags->show,
       .summary =
           "Show the recipe instead of running it, like `config show`; the same flag as in Hydra",
       .type = "VIEW",
       .choices = {"job", "all"}});
  add_views(verb, flags->view);
  verb.add({.name = "--launcher",
            .value = &flags->launcher,
            .summary = "Submit the run as a job: slurm or kubernetes. Same as `sweep --launcher` "
                       "with one trial",
            .type = "NAME"});
  verb.add({.name = "-m,--multirun", .value = &flags->multirun, .summary = "Same as `sweep`"});
  verb.add({.name = "--dry-run",
            .value = &flags->dry_run,
            .summary = "With --multirun: list the runs without starting them"});
  verb.run = [flags](Console& console) { return run_recipe(*flags, console); };
  return verb;
}

}  // namespace

const Command kRunCommand = {"run", "Runs a recipe and records the run.",
                             "retort run classify data.root=photos train.epochs=20", declare_run};

}  // namespace runner
