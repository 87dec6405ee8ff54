#include "stages/worker/export.h"

#include <algorithm>
#include <filesystem>
#include <stdexcept>

#include <torch/types.h>
#include <torch/utils.h>
#include <nlohmann/json.hpp>

#include "runner/shared/disk/new_file.h"
#include "runner/shared/stage/stage.h"
#include "stages/data/preprocessor_config.h"
#include "stages/machine/threads.h"
#include "stages/machine/user_variables.h"
#include "stages/model/adapter_folder.h"
#include "stages/model/adapter_layout.h"
#include "stages/model/clip_model.h"
#include "stages/model/clip_network.h"
#include "stages/model/coral_layer.h"
#include "stages/model/exported.h"
#include "stages/model/fine_tuned.h"
#include "stages/model/published_base.h"
#include "stages/model/torch_script.h"
#include "stages/weights/safetensors.h"
#include "stages/weights/weights.h"
#include "stages/worker/export_convolutional.h"
#include "stages/worker/export_hosted.h"
#include "stages/worker/export_readme.h"
#include "stages/worker/network_of_run.h"

namespace stages {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using runner::ErrorCode;
using runner::StageError;

constexpr const char* kBaseFolder = "base";

[[noreturn]] void refuse_export(const std::string& message, const std::string& help) {
  throw StageError(ErrorCode::kOptionConflict, message).with_help(help);
}

void write_json(const fs::path& file, const Json& json) {
  runner::write_atomically(file, json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

/// Throws if the model differs from the settings that timm infers from its name, which an export
/// cannot change.
void check_timm(const ImageClassifierOptions& options, WeightLayout layout) {
  const double epsilon = layout == WeightLayout::kTimmClip ? 1e-5 : 1e-6;
  if (options.tower.block.layer_norm_eps != epsilon) {
    refuse_export("timm's " + std::string(layout == WeightLayout::kTimmClip ? "CLIP" : "ViT") +
                      " uses layer_norm_eps " + Json(epsilon).dump() + ", but this model uses " +
                      Json(options.tower.block.layer_norm_eps).dump(),
                  "export it from a run with backbone.names: transformers");
  }
  if (layout == WeightLayout::kTimm && options.tower.block.hidden_act != Activation::kGelu) {
    refuse_export("timm's ViT uses the activation gelu, but this model uses quick_gelu",
                  "export it from a run with backbone.names: transformers");
  }
}

/// Throws if transformers' config for DINOv2 cannot describe the width of the MLP, which must be a
/// whole multiple of hidden_size.
void check_dinov2(const BlockOptions& block) {
  if (block.intermediate_size % block.hidden_size == 0) return;
  refuse_export(
      "transformers' DINOv2 needs an intermediate_size that is a multiple of hidden_size " +
          std::to_string(block.hidden_size) + ", but this model has " +
          std::to_string(block.intermediate_size),
      "export it with --torchscript");
}

/// Merges the adapters into the weights, converted to float32 because rounding would change the
/// network.
void merge_adapters(ImageClassifier& network) {
  auto* tuned = dynamic_cast<FineTunedClassifier*>(&network);
  if (!tuned || !tuned->lora) return;
  for (at::Tensor parameter : network.parameters()) parameter.set_data(parameter.to(at::kFloat));
  merge_lora(network);
}

AdapterHead head_of(const ImageClassifier& network, const Checkpoint& checkpoint) {
  const auto weights = network.named_parameters();
  return {weights["head.weight"].detach(), weights["head.bias"].detach(), checkpoint.classes,
          checkpoint.ordinal};
}

/// Returns the layout that the network's library loads.
WeightLayout own_layout(const ImageClassifier& network) {
  const auto* tuned = dynamic_cast<const FineTunedClassifier*>(&network);
  if (!tuned) return WeightLayout::kClip;
  return in_files(tuned->layout);
}

bool is_vit(WeightLayout layout) {
  return layout == WeightLayout::kVit || layout == WeightLayout::kTimm;
}

/// Returns the layout of an adapter for `names`: a library and, for transformers, its version.
WeightLayout adapter_layout(const std::string& names, const ImageClassifier& network,
                            bool head_inside) {
  const WeightLayout own = own_layout(network);
  const bool is_dinov2 = network.options().tower.block.layer_scale;
  if (names == "timm" || (names.empty() && is_fused(own)))
    return is_vit(own) || is_dinov2 ? WeightLayout::kTimm : WeightLayout::kTimmClip;
  const bool is_old = names == "transformers4";
  if (!names.empty() && names != "transformers" && !is_old)
    throw std::invalid_argument("there are no module names of '" + names + "'");
  if (is_dinov2) return is_old ? WeightLayout::kDinov2 : WeightLayout::kDinov25;
  if (is_vit(own)) {
    if (head_inside) return is_old ? WeightLayout::kVit : WeightLayout::kVit5;
    return is_old ? WeightLayout::kVitInner : WeightLayout::kVit5Inner;
  }
  return is_old || is_projected(network.options().feature) ? WeightLayout::kClip
                                                           : WeightLayout::kClipInner;
}

/// Writes the folder with one exported network.
class Export {
 public:
  Export(fs::path place, const Checkpoint& checkpoint, ImageClassifier& network)
      : place_(std::move(place)),
        checkpoint_(checkpoint),
        network_(network),
        transform_(transform_of(checkpoint)) {
    readme_.title = "Trained by Retort";
    readme_.feature = network.options().feature;
    readme_.outputs = static_cast<std::size_t>(network.options().num_classes);
    readme_.answer = answer_of(checkpoint);
    readme_.decision = decision_of(checkpoint);
    readme_.remarks = lost_in_preprocessor(transform_);
    for (std::string& remark : remarks_on(readme_.decision))
      readme_.remarks.push_back(std::move(remark));
    if (!checkpoint.weights.empty())
      readme_.remarks.push_back("These are the weights " +
                                std::string(checkpoint.weights == "averaged"
                                                ? "averaged over the training steps."
                                                : "as trained, not their average."));
  }

  void merged(const fs::path& folder) {
    merge_adapters(network_);
    readme_.layout = own_layout(network_);
    readme_.gives_logits = write_model(folder);
    if (!readme_.gives_logits) save_head(folder, head_of(network_, checkpoint_));
    finish(folder);
  }

  void torch_script(const fs::path& folder) {
    merge_adapters(network_);
    write_torch_script(network_, folder / "model.pt");
    readme_.form = ExportForm::kTorchScript;
    readme_.gives_logits = true;
    finish(folder);
  }

  void adapter(const fs::path& folder, const std::string& names, bool head_inside,
               const RequestContext& context) {
    auto* tuned = dynamic_cast<FineTunedClassifier*>(&network_);
    if (!tuned || !tuned->lora) {
      refuse_export(std::string("the model has no adapters: ") +
                        (tuned && !base_of(network_).empty() ? "a linear probe trains only its head"
                                                             : "all its weights were trained"),
                    "export it with --merged");
    }
    const WeightLayout layout = adapter_layout(names, network_, head_inside);
    AdapterBase base =
        base_of_adapter(*tuned->lora, layout, is_projected(network_.options().feature),
                        network_.options().tower.register_tokens > 0);
    const auto published = published_base(*tuned, layout);
    base.name_or_path = published
                            ? published->name_or_path
                            : (fs::absolute(place_) / kBaseFolder).lexically_normal().string();
    if (published) base.revision = published->revision;
    const AdapterHead head = head_of(network_, checkpoint_);
    if (head_inside) save_adapter_with_head(folder, *tuned->lora, module_names(layout), base, head);
    else save_adapter(folder, *tuned->lora, module_names(layout), base, head);
    if (!published) write_base(folder / kBaseFolder, *tuned, context);
    readme_.form = ExportForm::kAdapter;
    readme_.layout = layout;
    readme_.gives_logits = head_inside;
    readme_.base = *base.name_or_path;
    finish(folder);
  }

 private:
  /// Writes model.safetensors and the config from which the library creates the network. Returns
  /// true if the head is included.
  bool write_model(const fs::path& folder) const {
    const WeightLayout layout = own_layout(network_);
    if (is_fused(layout)) check_timm(network_.options(), layout);
    if (layout == WeightLayout::kDinov2) check_dinov2(network_.options().tower.block);
    const ExportedModel model = exported(network_, layout);
    write_safetensors(folder / "model.safetensors", model.tensors, {{"format", "pt"}});
    Json config = exported_config(network_.options(), layout, output_names(checkpoint_));
    if (readme_.answer == Answer::kLabels && !is_fused(layout))
      config["problem_type"] = "multi_label_classification";
    if (readme_.answer == Answer::kNumbers && !is_fused(layout))
      config["problem_type"] = "regression";
    if (is_fused(layout)) config["pretrained_cfg"].update(timm_preprocessing(transform_));
    write_json(folder / "config.json", config);
    return model.has_head;
  }

  /// Writes the weights on which the adapters were trained, if no library provides them.
  void write_base(const fs::path& folder, FineTunedClassifier& network,
                  const RequestContext& context) {
    for (const LoraLayer& layer : network.lora->layers) layer.layer->detach();
    fs::create_directory(folder);
    write_model(folder);
    write_json(folder / "preprocessor_config.json", preprocessor_config(transform_));
    readme_.remarks.push_back(moved_base_remark());
    context.say(
        "the adapter's base weights are also written, to base/, since they are not published");
  }

  void finish(const fs::path& folder) const {
    write_json(folder / "preprocessor_config.json", preprocessor_config(transform_));
    write_json(folder / "classes.json", checkpoint_.classes);
    write_answer(folder, checkpoint_);
    runner::write_atomically(folder / "README.md", to_text(readme_));
  }

  const fs::path place_;
  const Checkpoint& checkpoint_;
  ImageClassifier& network_;
  const ImageDatasetOptions transform_;
  ExportReadme readme_;
};

std::vector<std::string> files_in(const fs::path& folder) {
  std::vector<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files.push_back(entry.path().lexically_relative(folder));
  }
  std::ranges::sort(files);
  return files;
}

}  // namespace

runner::Result<Json> answer_export(const Json& request, const RequestContext& context) {
  const auto fields = request_fields(
      request, {"graph", "node", "checkpoints", "what", "out", "names", "head_inside"});
  const runner::Graph graph = runner::graph_from_json(fields.object("graph"));
  const runner::CheckpointSources trained =
      runner::checkpoint_sources_from_json(fields.object("checkpoints"));
  const std::string out = fields.text("out"), what = fields.text("what");
  runner::NewFolder folder(out);
  if (auto errors = refused_user_variables(use_threads(graph.threads), context.say);
      !errors.empty())
    return errors;
  const auto loaded = load_network_of_run(graph, fields.text("node"), trained, "cpu", context);
  if (!loaded) return loaded.errors();
  auto* network = dynamic_cast<ImageClassifier*>((*loaded)->network.get());
  auto* clip = dynamic_cast<ClipNetwork*>((*loaded)->network.get());
  auto* convolutional = dynamic_cast<ConvolutionalClassifierNetwork*>((*loaded)->network.get());
  auto* hosted = dynamic_cast<HostedNetwork*>((*loaded)->network.get());
  if (!network && !clip && !convolutional && !hosted) {
    refuse_export("other libraries cannot load a network of this kind",
                  "the weights of this run are in '" + (*loaded)->file.string() + "'");
  }
  const torch::NoGradGuard no_graph;
  repeat_coral_weights(*(*loaded)->network);
  if (hosted) {
    if (!fields.text("names").empty() || fields.flag("head_inside"))
      refuse_export("the adapter of a Python network has the network's own names",
                    "leave out --names and --head-inside");
    export_hosted(folder.draft(), **loaded, *hosted, what);
  } else if (convolutional) {
    const auto& model = dynamic_cast<const ConvolutionalClassifier&>(*(*loaded)->model);
    export_convolutional(folder.draft(), **loaded, model, *convolutional, what);
  } else if (clip) {
    const std::string names = fields.text("names");
    if (names == "timm" || fields.flag("head_inside"))
      refuse_export("a CLIP model with two towers does not support these options",
                    "leave out --names and --head-inside");
    export_clip(folder.draft(), out, **loaded, *clip, what, context);
  } else {
    Export writer(out, **loaded, *network);
    if (what == "merged") writer.merged(folder.draft());
    else if (what == "torchscript") writer.torch_script(folder.draft());
    else if (what == "adapter")
      writer.adapter(folder.draft(), fields.text("names"), fields.flag("head_inside"), context);
    else throw std::invalid_argument("there is no export format '" + what + "'");
  }
  const std::vector<std::string> files = files_in(folder.draft());
  folder.publish();
  Json answer = {{"folder", out}, {"files", files}};
  if (!(*loaded)->weights.empty()) answer["weights"] = (*loaded)->weights;
  return answer;
}

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using runner::ErrorCode;
using runner::StageError;

constexpr const char* kBaseOfClip = "base";  // name of the folder

void write_document(const fs::path& file, const Json& json) {
  runner::write_atomically(file, json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

/// Writes the folder with one exported CLIP model.
class ClipExport {
 public:
  ClipExport(const Checkpoint& checkpoint, ClipNetwork& network)
      : checkpoint_(checkpoint),
        network_(network),
        tokenizer_(dynamic_cast<const Clip&>(*checkpoint.model).tokenizer()),
        transform_(transform_of(checkpoint)) {
    readme_.has_head = network.options().class_count > 0;
    readme_.remarks = lost_in_preprocessor(transform_);
    if (!readme_.has_head) return;
    readme_.decision = decision_of(checkpoint);
    for (std::string& remark : remarks_on(readme_.decision))
      readme_.remarks.push_back(std::move(remark));
  }

  void merged(const fs::path& folder) {
    merge_lora(network_);
    write_model(folder);
    write_tokenizer(folder);
    finish(folder);
  }

  void adapter(const fs::path& folder, const fs::path& place, const RequestContext& context) {
    auto* adapted = dynamic_cast<AdaptedClip*>(&network_);
    if (!adapted) {
      throw StageError(ErrorCode::kOptionConflict,
                       "the model has no adapters: all its weights were trained")
          .with_help("export it with --merged");
    }
    AdapterBase base = whole_clip();
    const auto published = published_base(*adapted);
    base.name_or_path = published ? published->name_or_path
                                  : (fs::absolute(place) / kBaseOfClip).lexically_normal().string();
    if (published) base.revision = published->revision;
    save_adapter(folder, adapted->lora(), module_names(WeightLayout::kClip), base);
    if (!published) write_base(folder / kBaseOfClip, *adapted, context);
    readme_.base = *base.name_or_path;
    finish(folder);
  }

 private:
  void write_model(const fs::path& folder) const {
    write_safetensors(folder / "model.safetensors", exported(network_), {{"format", "pt"}});
    write_document(folder / "config.json", exported_config(network_.options()));
  }

  /// Writes the weights on which the adapters were trained, if no library provides them.
  void write_base(const fs::path& folder, AdaptedClip& network, const RequestContext& context) {
    for (const LoraLayer& layer : network.lora().layers) layer.layer->detach();
    fs::create_directory(folder);
    write_model(folder);
    write_document(folder / "preprocessor_config.json", preprocessor_config(transform_));
    write_tokenizer(folder);
    readme_.remarks.push_back(moved_base_remark());
    context.say(
        "the adapter's base weights are also written, to base/, since they are not published");
  }

  /// Writes the tokenizer. It is omitted alongside an adapter, because peft would resize the
  /// network's vocabulary to match it, which transformers' CLIPModel does not support.
  void write_tokenizer(const fs::path& folder) const {
    const Vocabulary vocabulary = tokenizer_.vocabulary();
    runner::write_atomically(folder / "merges.txt", merges_text(vocabulary));
    runner::write_atomically(folder / "vocab.json", numbers_text(vocabulary));
    write_document(folder / "tokenizer_config.json",
                   {{"tokenizer_class", "CLIPTokenizer"},
                    {"model_max_length", network_.options().text.context_length},
                    {"bos_token", "<|startoftext|>"},
                    {"eos_token", "<|endoftext|>"},
                    {"unk_token", "<|endoftext|>"},
                    {"pad_token", "<|endoftext|>"}});
  }

  void finish(const fs::path& folder) const {
    write_document(folder / "preprocessor_config.json", preprocessor_config(transform_));
    if (readme_.has_head) {
      const auto weights = network_.named_parameters();
      save_head(folder,
                {weights["class_head.weight"].detach(), weights["class_head.bias"].detach(), {}});
    }
    write_document(folder / "classes.json", checkpoint_.classes);
    runner::write_atomically(folder / "README.md", to_text(readme_));
  }

  const Checkpoint& checkpoint_;
  ClipNetwork& network_;
  const Tokenizer& tokenizer_;
  const ImageDatasetOptions transform_;
  ClipReadme readme_;
};

}  // namespace

void export_clip(const fs::path& folder, const fs::path& place, const Checkpoint& checkpoint,
                 ClipNetwork& network, const std::string& what, const RequestContext& context) {
  ClipExport writer(checkpoint, network);
  if (what == "merged") return writer.merged(folder);
  if (what == "adapter") return writer.adapter(folder, place, context);
  throw StageError(ErrorCode::kOptionConflict,
                   "a CLIP model with two towers cannot be exported as one program")
      .with_help("export it with --merged");
}

}  // namespace stages
