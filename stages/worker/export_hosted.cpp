#include "stages/worker/export_hosted.h"

#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "runner/shared/disk/new_file.h"
#include "runner/shared/error/stage_error.h"
#include "stages/data/preprocessor_config.h"
#include "stages/weights/safetensors.h"
#include "stages/worker/export_readme.h"
#include "stages/worker/network_of_run.h"

namespace stages {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

void write_readable(const fs::path& file, const Json& json) {
  runner::write_atomically(file, json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

/// Returns the tensors that Python saves for the network, by their names in Python.
NamedTensors state_dict(const HostedNetwork& network) {
  NamedTensors here, state;
  for (const auto& weights : {network.named_parameters(), network.named_buffers()}) {
    for (const auto& item : weights) here.set(item.key(), item.value());
  }
  // Tied weights have several names, and each name gets a copy.
  for (const auto& [name, ours] : network.state())
    state.set(name, here.at(ours).detach().cpu().contiguous());
  return state;
}

/// The network's entry, "timm:create_model", as Python imports it.
struct ImportedEntry {
  std::string text, module, function;
  bool is_file = false;

  explicit ImportedEntry(const HostedNetwork& network)
      : text(network.description().at("entry")),
        module(text.substr(0, text.rfind(':'))),
        function(text.substr(text.rfind(':') + 1)),
        is_file(module.ends_with(".py")) {
    if (is_file) module = fs::path(module).stem();
  }
};

/// Returns a program that creates the network and loads the exported files.
std::string loading_program(const ImportedEntry& entry, bool is_adapter) {
  const std::string peft = is_adapter ? "from peft import PeftModel\n" : "";
  const std::string weights = is_adapter ? "base/model.safetensors" : "model.safetensors";
  return "```python\nimport json\nimport " + entry.module + "\n" + peft +
         "from safetensors.torch import load_file\n\nfolder = \".\"\nwith open("
         "f\"{folder}/network.json\") as file:\n    arguments = json.load(file)[\"arguments\"]\n"
         "network = " +
         entry.module + "." + entry.function +
         "(**arguments)\nnetwork.load_state_dict(load_file(f\"{folder}/" + weights + "\"))\n" +
         (is_adapter ? "network = PeftModel.from_pretrained(network, folder)\n" : "") +
         "network.eval()\n```\n";
}

std::string readme_of_hosted(const Checkpoint& checkpoint, const HostedNetwork& network,
                             bool is_adapter) {
  const ImportedEntry entry(network);
  std::string text = "# Trained by Retort\n\n";
  text += is_adapter ? "A LoRA adapter in peft's format, for the network that `" + entry.text +
                           "` creates with the arguments in network.json. The network's other "
                           "weights and buffers are in base/.\n"
                     : "The state dict of the network that `" + entry.text +
                           "` creates with the arguments in network.json.\n";
  if (network.lora() && !is_adapter) text += "\nThe adapters are merged into the weights.\n";
  if (entry.is_file)
    text += "\nThe program needs that file on its path; the run's folder contains a copy.\n";
  if (!checkpoint.weights.empty()) {
    text += "\nThese are the weights ";
    text += checkpoint.weights == "averaged" ? "averaged over the training steps.\n"
                                             : "as trained, not their average.\n";
  }
  const FittedDecision decision = decision_of(checkpoint);
  for (const std::string& remark : remarks_on(decision)) text += "\n" + remark + "\n";
  for (const auto& [name, number] : named_numbers(decision))
    text += "\n" + name + ": " + Json(number).dump() + "\n";
  return text + "\n" + loading_program(entry, is_adapter);
}

/// Writes the adapters, and the network without them.
void write_adapter(const fs::path& folder, HostedNetwork& network) {
  if (!network.lora()) {
    throw runner::StageError(runner::ErrorCode::kOptionConflict, "the model has no adapters")
        .with_help("export it with --merged");
  }
  network.save_adapter_to(folder);
  for (const LoraLayer& layer : network.lora()->layers) layer.layer->detach();
  fs::create_directory(folder / "base");
  write_safetensors(folder / "base/model.safetensors", state_dict(network), {{"format", "pt"}});
}

}  // namespace

void export_hosted(const fs::path& folder, const Checkpoint& checkpoint, HostedNetwork& network,
                   const std::string& what) {
  const bool is_adapter = what == "adapter";
  if (what != "merged" && !is_adapter) {
    throw runner::StageError(runner::ErrorCode::kOptionConflict,
                             "a Python network cannot be exported as one program")
        .with_help("export it with --merged");
  }
  if (is_adapter) {
    write_adapter(folder, network);
  } else {
    if (network.lora()) merge_lora(network);
    write_safetensors(folder / "model.safetensors", state_dict(network), {{"format", "pt"}});
  }
  write_readable(folder / "network.json", network.description());
  if (!checkpoint.transform.empty())
    write_readable(folder / "preprocessor_config.json",
                   preprocessor_config(transform_of(checkpoint)));
  write_readable(folder / "classes.json", checkpoint.classes);
  write_answer(folder, checkpoint);
  runner::write_atomically(folder / "README.md", readme_of_hosted(checkpoint, network, is_adapter));
}

}  // namespace stages
