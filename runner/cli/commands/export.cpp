#include <memory>

#include <nlohmann/json.hpp>

#include "runner/cli/command.h"
#include "runner/run/supervise.h"
#include "runner/cli/trained_request.h"

namespace runner {
namespace {

struct ExportFlags {
  TrainedFlags trained;
  bool merged = false, adapter = false;  ///< the whole network, or its adapters alone
  std::string out;
  std::string names;         ///< of an adapter: whose it is to have; empty: the base's library's
  bool head_inside = false;  ///< of an adapter: the head as one of modules_to_save
};

ExitCode export_trained(const ExportFlags& flags, Console& console) {
  if (!flags.merged && !flags.adapter) {
    return report(console, {{ErrorCode::kUsage,
                             {},
                             "",
                             "export what?",
                             "--merged: the whole network; --adapter: what a LoRA training has trained"}});
  }
  auto request = trained_request("export", flags.trained, {});
  if (!request) return report(console, request.errors());
  const auto worker = find_worker(own_executable());
  if (!worker) return report(console, worker.errors());
  request->json.update({{"what", flags.merged ? "merged" : "adapter"},
                        {"out", flags.out},
                        {"names", flags.names},
                        {"head_inside", flags.head_inside}});
  Conversation conversation;
  conversation.on_event = [&](const Event& event, WorkerProcess&) {
    const auto* said = std::get_if<Said>(&event);
    if (said && !console.is_quiet()) console.err << "export: " << said->line << '\n';
  };
  const auto answer = ask_worker({.program = *worker}, request->json, conversation);
  if (!answer) return report(console, placed(answer.errors(), request->recipe));
  if (console.json) console.out << answer->dump(2) << '\n';
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
  verb.run = [flags](Console& console) { return export_trained(*flags, console); };
  return verb;
}

}  // namespace

const Command kExportCommand = {"export", "Writes what a run has trained as transformers, peft and timm load it.",
                                "retort export outputs/2026-01-31/12-00-00 --adapter --out my_adapter", declare_export};

}  // namespace runner
