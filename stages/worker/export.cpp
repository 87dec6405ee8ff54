#include "stages/worker/export.h"

#include <algorithm>
#include <filesystem>

#include <nlohmann/json.hpp>
#include <torch/torch.h>

#include "runner/disk/new_file.h"
#include "runner/stage/stage.h"
#include "stages/model/adapter_folder.h"
#include "stages/model/adapter_layout.h"
#include "stages/model/exported.h"
#include "stages/model/fine_tuned.h"
#include "runner/disk/new_folder.h"
#include "stages/weights/safetensors.h"
#include "stages/machine/threads.h"
#include "stages/worker/trained_checkpoint.h"

namespace stages {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using runner::ErrorCode;
using runner::StageError;

[[noreturn]] void refuse_export(const std::string& message, const std::string& help) {
  throw StageError(ErrorCode::kOptionConflict, message).with_help(help);
}

void write_json(const fs::path& file, const Json& json) {
  runner::write_atomically(file, json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

/// timm's names stand for these; there is no other way to tell it.
void check_timm(const ImageClassifierOptions& options, WeightLayout layout) {
  const double epsilon = layout == WeightLayout::kTimmClip ? 1e-5 : 1e-6;
  if (options.tower.block.layer_norm_eps != epsilon) {
    refuse_export("timm's " + std::string(layout == WeightLayout::kTimmClip ? "CLIP" : "ViT") +
                      " has the layer_norm_eps " + Json(epsilon).dump() + ", and this model " +
                      Json(options.tower.block.layer_norm_eps).dump(),
                  "export it from a run with backbone.names: transformers");
  }
  if (layout == WeightLayout::kTimm && options.tower.block.hidden_act != Activation::kGelu) {
    refuse_export("timm's ViT has the activation gelu, and this model quick_gelu",
                  "export it from a run with backbone.names: transformers");
  }
}

void write_merged(const fs::path& folder, FineTunedClassifier& network, const Checkpoint& checkpoint) {
  const WeightLayout layout = network.layout;
  if (is_fused(layout)) check_timm(network.options(), layout);
  merge_lora(network);
  const ExportedModel model = exported(network, layout);
  write_safetensors(folder / "model.safetensors", model.tensors, {{"format", "pt"}});
  const at::ScalarType type = network.tower().parameters().front().scalar_type();
  write_json(folder / "config.json", exported_config(network.options(), layout, type, checkpoint.classes));
  if (model.has_head) return;
  const auto weights = network.named_parameters();
  save_head(folder, {weights["head.weight"].detach(), weights["head.bias"].detach(), checkpoint.classes});
}

/// The layout that a request calls `names`; of "" the network's own.
WeightLayout layout_named(const std::string& names, WeightLayout own) {
  if (names.empty()) return own;
  if (names == "clip_vision") return WeightLayout::kClip;
  if (names == "clip_inner") return WeightLayout::kClipInner;
  if (names == "hf_vit") return WeightLayout::kVit;
  if (names == "hf_vit_v5") return WeightLayout::kVit5;
  if (names == "timm") return is_fused(own) ? own : WeightLayout::kTimm;
  throw std::invalid_argument("no names of modules are called '" + names + "'");
}

void write_adapter(const fs::path& folder, const FineTunedClassifier& network, const Checkpoint& checkpoint,
                   const std::string& names_wanted, bool head_inside) {
  if (!network.lora) {
    refuse_export("the model has no adapters: a linear probe trains only its head", "export it with --merged");
  }
  const WeightLayout layout = layout_named(names_wanted, network.layout);
  const ModuleNames names = module_names(layout);
  const auto weights = network.named_parameters();
  const AdapterHead head{weights["head.weight"].detach(), weights["head.bias"].detach(), checkpoint.classes};
  AdapterBase base = base_of_adapter(layout);
  const std::string reference = network.weights_reference.value_or("");
  if (reference.starts_with("hf:")) base.name_or_path = reference.substr(3, reference.find('@') - 3);
  if (head_inside) save_adapter_with_head(folder, *network.lora, names, base, head);
  else save_adapter(folder, *network.lora, names, base, head);
}

std::vector<std::string> files_in(const fs::path& folder) {
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path().filename());
  std::ranges::sort(files);
  return files;
}

}  // namespace

runner::Result<Json> answer_export(const Json& request, const RequestContext& context) {
  const runner::Graph graph = runner::graph_from_json(request.at("graph"));
  const runner::TrainedNodes trained = runner::trained_from_json(request.at("checkpoints"));
  runner::NewFolder folder(request.at("out").get<std::string>());
  use_threads(graph.threads);
  const auto loaded = load_trained(graph, request.at("node").get<std::string>(), trained, "cpu", context);
  if (!loaded) return loaded.errors();
  const Checkpoint& checkpoint = **loaded;
  auto* network = dynamic_cast<FineTunedClassifier*>(checkpoint.network.get());
  if (!network) {
    refuse_export("only a fine-tuned backbone (model.linear_probe, model.lora) has a form that other libraries load",
                  "the weights of this run are in '" + checkpoint.file.string() + "'");
  }
  const torch::NoGradGuard no_graph;
  const std::string what = request.at("what");
  if (what != "merged" && what != "adapter") throw std::invalid_argument("nothing to export is called '" + what + "'");
  if (what == "merged") write_merged(folder.draft(), *network, checkpoint);
  else write_adapter(folder.draft(), *network, checkpoint, request.at("names"), request.at("head_inside"));
  const std::vector<std::string> files = files_in(folder.draft());
  folder.publish();
  return Json{{"folder", request.at("out")}, {"files", files}};
}

}  // namespace stages
