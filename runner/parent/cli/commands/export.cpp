#include <filesystem>
#include <memory>
#include <optional>

#include <nlohmann/json.hpp>

#include "runner/parent/cli/command.h"
#include "runner/parent/cli/graph_worker.h"
#include "runner/parent/cli/mlflow_export.h"
#include "runner/parent/cli/prepare.h"
#include "runner/parent/cli/weights_source.h"
#include "runner/parent/record/tensorboard_log.h"
#include "runner/parent/run/plan_request.h"
#include "runner/parent/sweep/sweep_journal.h"
#include "runner/parent/sweep/sweep_tensorboard.h"
#include "runner/shared/disk/new_file.h"
#include "runner/shared/disk/write_error.h"
#include "runner/shared/record/recorded_run.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/text/printable.h"

namespace runner {
namespace {

struct ExportFlags {
  WeightsSource weights;
  std::vector<std::string> overrides;
  bool merged = false, adapter = false, torchscript = false;  ///< what to export; none: merged
  std::string out;  ///< the folder to create; empty: one in export/ in the run's folder
  LogFlags log;
  std::string names;  ///< for an adapter: the library that defines the module names; empty: the
                      ///< library of the base model
  bool head_inside = false;  ///< for an adapter: save the head in modules_to_save
  bool tensorboard = false;  ///< export the run or sweep instead of the network
  std::string mlflow;        ///< send the run to this server instead
};

/// Returns the settings of the trial in `run`; nullopt if that is not a trial.
std::optional<Hparams> options_of_trial(const std::filesystem::path& run) {
  Hparams options = hparams_of_trial(run);
  return options.empty() ? std::nullopt : std::optional(std::move(options));
}

/// Writes a run, or a sweep with all its runs, as TensorBoard event files.
ExitCode export_to_tensorboard(const ExportFlags& flags, Console& console) {
  const auto sweep = SweepJournal::read(flags.weights.run);
  const auto run = read_run(flags.weights.run);
  if (!sweep && !run) return report(console, run.errors());
  const std::filesystem::path from = sweep ? std::filesystem::path(flags.weights.run) : run->folder;
  const std::filesystem::path folder = flags.out.empty() ? RunLayout(from).exported("tensorboard")
                                                         : std::filesystem::path(flags.out);
  std::vector<std::string> files;
  try {
    NewFolder written(folder);
    files = sweep ? write_sweep_tensorboard(from, *sweep, written.draft())
                  : write_tensorboard(from, written.draft(), options_of_trial(from));
    if (files.empty()) {
      const std::string command = sweep ? "retort sweep resume " : "retort resume ";
      return report(console, {{ErrorCode::kNoResults,
                               {},
                               "",
                               "the " + std::string(sweep ? "sweep" : "run") + " in '" +
                                   from.string() + "' has no metrics yet",
                               "continue it with `" + command + from.string() + "`"}});
    }
    written.publish();
  } catch (const WriteError& error) {
    return report(console, {error.diagnostic()});
  }
  if (console.json) {
    print_result(console, "export/1", {{"folder", folder.string()}, {"files", files}});
  } else if (!console.is_quiet()) {
    for (const std::string& file : files)
      console.out << printable((folder / file).string()) << '\n';
  }
  return ExitCode::kDone;
}

/// Returns the requested format's name, as expected by the worker.
std::string_view asked_for(const ExportFlags& flags) {
  if (flags.adapter) return "adapter";
  return flags.torchscript ? "torchscript" : "merged";
}

ExitCode export_trained(const ExportFlags& flags, Console& console) {
  const int kinds = flags.merged + flags.adapter + flags.torchscript + flags.tensorboard;
  if (kinds + !flags.mlflow.empty() > 1) {
    return report(
        console,
        {{ErrorCode::kUsage,
          {},
          "",
          "--merged, --adapter, --torchscript, --tensorboard and --mlflow cannot be combined",
          "run one export for each"}});
  }
  if (!flags.adapter && (flags.head_inside || !flags.names.empty())) {
    const std::string flag = flags.head_inside ? "--head-inside" : "--names";
    return report(console, {{ErrorCode::kUsage,
                             {},
                             "",
                             flag + " applies only to --adapter",
                             "add --adapter, or leave out " + flag}});
  }
  if (!flags.mlflow.empty() && !flags.out.empty()) {
    return report(console, {{ErrorCode::kUsage,
                             {},
                             "",
                             "--out is for exports to a folder, but --mlflow exports to a server",
                             "leave out --out"}});
  }
  if (!flags.mlflow.empty()) return export_to_mlflow(flags.weights.run, flags.mlflow, console);
  if (flags.tensorboard) return export_to_tensorboard(flags, console);
  auto request = weights_request("export", flags.weights, flags.overrides, console.sources);
  if (!request) return report(console, request.errors());
  const auto worker = worker_for(request->graph, request->recipe, shipped_schemas(), flags.log);
  if (!worker) return report(console, worker.errors());
  request->refresh_graph();
  const std::string_view what = asked_for(flags);
  const std::string name = request->json["node"].get<std::string>() + "-" + std::string(what);
  const std::string out =
      flags.out.empty() ? RunLayout(flags.weights.run).exported(name).string() : flags.out;
  request->json.update({{"what", what},
                        {"out", path_for(request->graph, out)},
                        {"names", flags.names},
                        {"head_inside", flags.head_inside}});
  ProgressDisplay display(console.err, standard_error_display(console.verbosity),
                          SecretTexts(request->recipe));
  const auto answer = ask_worker(*worker, request->json, shown_conversation(display, "export"));
  if (!answer) return report(console, placed(answer.errors(), request->recipe));
  if (console.json) print_result(console, "export/1", *answer);
  else if (!console.is_quiet()) {
    for (const auto& file : (*answer)["files"])
      console.out << printable(out + '/' + file.get<std::string>()) << '\n';
  }
  return ExitCode::kDone;
}

Invocation declare_export() {
  const auto flags = std::make_shared<ExportFlags>();
  Invocation verb;
  verb.is_single = true;
  add_weights_source(verb, flags->weights);
  verb.add({.name = "overrides",
            .value = &flags->overrides,
            .summary = "key=value: only for secrets, which the run's record does not contain"});
  verb.add({.name = "--merged",
            .value = &flags->merged,
            .summary = "The whole network with adapters merged, in the format of transformers or "
                       "timm; the default"});
  verb.add({.name = "--adapter",
            .value = &flags->adapter,
            .summary = "Only the adapters, in the format of peft"});
  verb.add({.name = "--torchscript",
            .value = &flags->torchscript,
            .summary = "The whole network as a TorchScript program, from pixels to logits"});
  verb.add({.name = "--tensorboard",
            .value = &flags->tensorboard,
            .summary = "Export the run instead of the network, or a sweep with all its runs, as "
                       "TensorBoard event files"});
  verb.add({.name = "--mlflow",
            .value = &flags->mlflow,
            .summary = "Instead of the network, send the run, or a sweep with all its runs, to the "
                       "MLflow server at this address. Nothing is sent twice",
            .type = "URI"});
  verb.add({.name = "--out",
            .value = &flags->out,
            .summary =
                "The folder to create, which must not exist yet; default: export/NODE-merged, "
                "-adapter or -torchscript, or export/tensorboard, in the run's folder",
            .type = "DIR",
            .is_written = true});
  verb.add({.name = "--names",
            .value = &flags->names,
            .summary =
                "With --adapter: use the module names of transformers 5, transformers 4 or timm; "
                "default: the model's own library, in its current version",
            .type = "NAMES",
            .choices = {"transformers", "transformers4", "timm"}});
  verb.add({.name = "--head-inside",
            .value = &flags->head_inside,
            .summary =
                "With --adapter: save the head in modules_to_save instead of in head.safetensors"});
  add_weights_node(verb, flags->weights);
  add_log_level(verb, flags->log, LogPlace::kStandardError);
  verb.run = [flags](Console& console) { return export_trained(*flags, console); };
  return verb;
}

}  // namespace

const Command kExportCommand = {
    "export",
    "Exports a run's trained network in the format of transformers, peft or timm, or as "
    "TorchScript; or its metrics for TensorBoard; or the run to MLflow.",
    "retort export outputs/2026-01-31/12-00-00 --adapter --out my_adapter", declare_export};

}  // namespace runner
