#include "stages/model/first_adapter.h"

#include <torch/nn/module.h>
#include <torch/utils.h>

#include "runner/shared/stage/stage.h"
#include "stages/model/adapter_folder.h"
#include "stages/model/adapter_layout.h"

namespace stages {
namespace {

using runner::ErrorCode;
using runner::StageError;

void check_fit(const AdapterHead& saved, const std::string& folder, const HeadWeights& head) {
  if (saved.weight.sizes() == head.weight.sizes()) return;
  throw StageError(ErrorCode::kOptionConflict, "the head beside the adapter in '" + folder + "' has " +
                                                   std::to_string(saved.bias.size(0)) + " classes, and the data " +
                                                   std::to_string(head.bias.size(0)))
      .with_help("train on the classes that it knows, or remove head.safetensors to train a new head");
}

}  // namespace

std::vector<std::string> begin_from(const std::string& folder, const torch::nn::Module& network,
                                    const AttachedLora& lora, const HeadWeights& head) {
  try {
    SavedAdapter saved = read_adapter(folder);
    const ModuleNames names = names_in_adapter(saved, network);
    take_head(saved, names);
    const bool takes_head = saved.head && head.weight.defined();
    if (takes_head) check_fit(*saved.head, saved.folder.string(), head);
    std::vector<std::string> notes = load_adapter(lora, saved, names);
    notes.push_back("starts from the adapter in '" + saved.folder.string() + "'");
    if (takes_head) {
      const torch::NoGradGuard no_graph;
      at::Tensor(head.weight).copy_(saved.head->weight);
      at::Tensor(head.bias).copy_(saved.head->bias);
    } else if (saved.head) {
      notes.push_back("the head beside that adapter is left out: this model has none");
    }
    return notes;
  } catch (const StageError& error) {
    throw StageError(error.code, error.what()).at("/adapter").with_help(error.help);
  }
}

std::vector<std::string> without_effect(const AttachedLora& lora) {
  std::vector<std::string> notes;
  for (const std::string& target : lora.unused_targets) notes.push_back("targets: '" + target + "' names no layer");
  for (const std::string& pattern : lora.unused_patterns)
    notes.push_back("'" + pattern + "' of rank_pattern or alpha_pattern matches no layer that has an adapter");
  return notes;
}

}  // namespace stages
