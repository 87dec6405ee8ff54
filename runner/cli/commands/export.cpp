#include <memory>

#include <nlohmann/json.hpp>

#include "runner/cli/command.h"
#include "runner/cli/log_flags.h"
#include "runner/cli/trained_request.h"
#include "runner/run/shown_conversation.h"

namespace runner {
namespace {

struct ExportFlags {
  TrainedFlags trained;
  bool merged = false, adapter = false;  ///< the whole network, or its adapters alone
  std::string out;
  LogFlags log;
  std::string names;         ///< of an adapter: whose it is to have; empty: the base's library's
  bool head_inside = false;  ///< of an adapter: the head as one of modules_to_save
};

ExitCode export_trained(const ExportFlags& flags, Console& console) {
  if (!flags.merged && !flags.adapter) {
    return report(console, {{ErrorCode::kUsage,
                             {},
                             "",
                             "nothing to export is chosen",
                             "add --merged for the whole network, or --adapter for what a LoRA training has trained"}});
  }
  auto request = trained_request("export", flags.trained, {});
  if (!request) return report(console, request.errors());
  const auto worker = flags.log.worker();
  if (!worker) return report(console, worker.errors());
  request->json.update({{"what", flags.merged ? "merged" : "adapter"},
                        {"out", flags.out},
                        {"names", flags.names},
                        {"head_inside", flags.head_inside}});
  ProgressDisplay display(console.err, standard_error_display(console.verbosity));
  const auto answer = ask_worker(*worker, request->json, shown_conversation(display, "export"));
  if (!answer) return report(console, placed(answer.errors(), request->recipe));
  if (console.json) print_result(console, "export/1", *answer);
  else if (!console.is_quiet()) {
    for (const auto& file : (*answer)["files"]) console.out << flags.out << '/' << file.get<std::string>() << '\n';
  }
  return ExitCode::kDone;
}

Invocation declare_export() {
  const auto flags = std::make_shared<ExportFlags>();
  Invocation verb;
  add_trained(verb, flags->trained);
  verb.add({.name = "--merged",
            .value = &flags->merged,
            .summary = "The whole network, adapters merged into it, as transformers or timm save it"});
  verb.add({.name = "--adapter",
            .value = &flags->adapter,
            .summary = "Only the adapters, as peft saves them",
            .excludes = "--merged"});
  verb.add({.name = "--out",
            .value = &flags->out,
            .summary = "The folder to write; it must not exist",
            .type = "DIR",
            .required = true});
  verb.add({.name = "--names",
            .value = &flags->names,
            .summary = "Of an adapter: clip_vision and clip_inner for CLIP with and without vision_model., hf_vit and "
                       "hf_vit_v5 for the modules' names of transformers 4 and 5, timm; default: the model's own",
            .type = "NAMES",
            .choices = {"clip_vision", "clip_inner", "hf_vit", "hf_vit_v5", "timm"}});
  verb.add({.name = "--head-inside",
            .value = &flags->head_inside,
            .summary = "Of an adapter: save the head among its modules_to_save instead of in head.safetensors"});
  add_trained_node(verb, flags->trained);
  add_log_level(verb, flags->log, LogPlace::kStandardError);
  verb.run = [flags](Console& console) { return export_trained(*flags, console); };
  return verb;
}

}  // namespace

const Command kExportCommand = {"export", "Writes what a run trained in the formats of transformers, peft and timm.",
                                "retort export outputs/2026-01-31/12-00-00 --adapter --out my_adapter", declare_export};

}  // namespace runner
