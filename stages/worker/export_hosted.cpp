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

std::string readme_of_hosted(const Checkpoint& checkpoint, const HostedNetwork& network) {
  const std::string entry = network.description().at("entry");
  const std::size_t colon = entry.rfind(':');
  std::string module = entry.substr(0, colon);
  const bool is_file = module.ends_with(".py");
  if (is_file) module = fs::path(module).stem();
  std::string text = "# Trained by Retort\n\nThe state dict of the network that `" + entry +
                     "` creates with the arguments in network.json.\n";
  if (network.lora()) text += "\nThe adapters are merged into the weights.\n";
  if (is_file)
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
  return text + "\n```python\nimport json\nimport " + module +
         "\nfrom safetensors.torch import load_file\n\nfolder = \".\"\nwith open("
         "f\"{folder}/network.json\") as file:\n    arguments = json.load(file)[\"arguments\"]\n"
         "network = " +
         module + "." + entry.substr(colon + 1) +
         "(**arguments)\nnetwork.load_state_dict(load_file(f\"{folder}/model.safetensors\"))\n"
         "network.eval()\n```\n";
}

}  // namespace

void export_hosted(const fs::path& folder, const Checkpoint& checkpoint, HostedNetwork& network,
                   const std::string& what) {
  if (what != "merged") {
    throw runner::StageError(runner::ErrorCode::kOptionConflict,
                             what == "adapter"
                                 ? "the adapters of a Python network have no format of their own"
                                 : "a Python network cannot be exported as one program")
        .with_help("export it with --merged");
  }
  if (network.lora()) merge_lora(network);
  write_safetensors(folder / "model.safetensors", state_dict(network), {{"format", "pt"}});
  write_readable(folder / "network.json", network.description());
  if (!checkpoint.transform.empty())
    write_readable(folder / "preprocessor_config.json",
                   preprocessor_config(transform_of(checkpoint)));
  write_readable(folder / "classes.json", checkpoint.classes);
  write_answer(folder, checkpoint);
  runner::write_atomically(folder / "README.md", readme_of_hosted(checkpoint, network));
}

}  // namespace stages
