#include "stages/model/fine_tuned.h"

#include <stdexcept>

#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "runner/shared/stage/stage.h"
#include "stages/model/adapter_layout.h"
#include "stages/model/clip_vision.h"
#include "stages/model/coral_layer.h"
#include "stages/model/pretrained.h"
#include "stages/model/text_head.h"
#include "stages/model/vision_tower.h"
#include "stages/model/weight_names.h"
#include "stages/numerics/sharded_build.h"

namespace stages {

void FrozenBase::freeze(const torch::nn::Module& network, std::string base) {
  base_ = std::move(base);
  base_weights_.clear();
  for (const auto& item : network.named_parameters()) {
    if (!item.value().requires_grad()) base_weights_.insert(item.key());
  }
}

namespace {

using runner::ErrorCode;
using runner::StageError;

bool is_of_head(std::string_view weight) { return weight.starts_with("head."); }

bool is_of_base(std::string_view weight) { return !is_of_head(weight) && !is_of_adapter(weight); }

/// Converts trained parameters to float32, regardless of the type of the base. They have no values
/// yet.
void widen_what_is_trained(const torch::nn::Module& network) {
  for (at::Tensor parameter : network.parameters()) {
    if (parameter.requires_grad() && parameter.scalar_type() != at::kFloat)
      parameter.set_data(torch::empty_like(parameter, at::kFloat));
  }
}

void zero_head(torch::nn::Module& network) {
  const torch::NoGradGuard no_graph;
  for (const auto& item : network.named_parameters()) {
    if (is_of_head(item.key())) item.value().zero_();
  }
}

void start_head(torch::nn::Module& network, const at::Tensor& rows) {
  zero_head(network);
  const torch::NoGradGuard no_graph;
  network.named_parameters()["head.weight"].copy_(rows);
}

FineTunedClassifier& as_classifier(torch::nn::Module& network) {
  auto* classifier = dynamic_cast<FineTunedClassifier*>(&network);
  if (!classifier) throw std::logic_error("not a network made by FineTuned::build()");
  return *classifier;
}

}  // namespace

bool FineTunedClassifier::is_of_origin(std::string_view weight) const {
  return is_all_trained_ && !is_of_head(weight);
}

void FineTunedClassifier::start_from(std::string origin) {
  is_all_trained_ = true;
  origin_ = std::move(origin);
}

std::unique_ptr<PretrainedPlaces> FineTuned::places_in(torch::nn::Module& network) const {
  const BackboneConfig& backbone = config_.backbone;
  try {
    auto places =
        std::make_unique<PretrainedPlaces>(network, saved_->tensors, backbone.position_resize);
    check_fit(places->report());
    return places;
  } catch (const StageError& error) {
    if (!error.stage.empty()) throw;
    throw StageError(error.code, "'" + *backbone.weights + "': " + error.what())
        .at("/weights")
        .in_stage(backbone.pointer)
        .with_help(error.help);
  }
}

void FineTuned::check_fit(const PretrainedReport& report) const {
  if (report.fits()) return;
  const BackboneConfig& backbone = config_.backbone;
  const std::string sizes = differing_sizes(backbone, sizes_of_weights(saved_->tensors));
  throw StageError(ErrorCode::kDamagedWeights,
                   "the weights '" + *backbone.weights +
                       "' do not match the backbone: " + (sizes.empty() ? report.misfits() : sizes))
      .at("/weights")
      .in_stage(backbone.pointer)
      .with_help(
          sizes.empty()
              ? "use weights of a model of this shape, or change the backbone to match these"
              : "change the backbone's dimensions to match the weights, or use other weights");
}

void FineTuned::fill_base(FineTunedClassifier& network) const {
  const BackboneConfig& backbone = config_.backbone;
  if (!saved_) {
    initialize(network, backbone.initializer(), base_seed_, is_of_base);
    network.notes.push_back("the backbone has random weights");
    return;
  }
  const auto places = places_in(network);
  try {
    read_saved_weights(*backbone.weights, saved_->sha256, places->sink(), backbone.weights_entry);
  } catch (const StageError& error) {
    throw StageError(error.code, error.what())
        .at("/weights")
        .in_stage(backbone.pointer)
        .with_help(error.help);
  }
  check_fit(places->report());
  PretrainedReport report = places->report();
  if (config_.head_start != HeadStart::kUniform) report.random.clear();
  network.notes.push_back("'" + *backbone.weights + "': " + saved_->choice() + report.text());
}

void FineTuned::check_base() const {
  if (!saved_) return;
  ImageClassifierOptions options{.tower = config_.backbone.tower,
                                 .feature = config_.backbone.feature};
  options.tower.image_size =
      options.tower.patch_size;  // any size works: the position embeddings are resized
  if (is_projected(options.feature)) options.projection_dim = config_.backbone.projection_dim;
  options.projection_bias = config_.backbone.has_timm_names;
  options.num_classes = 1;
  ImageClassifier network(options, at::TensorOptions(at::kFloat).device(at::kMeta));
  places_in(network);
}

/// transformers renamed the layers of its ViT and DINOv2 in version 5; targets may use the old or
/// new names.
AttachedLora FineTuned::attach(FineTunedClassifier& network, std::uint64_t seed) const {
  try {
    return attach_lora(network, *config_.lora, module_names(network.layout), seed);
  } catch (const StageError&) {
    const WeightLayout renamed = since_version_5(network.layout);
    if (renamed == network.layout) throw;
    try {
      AttachedLora lora = attach_lora(network, *config_.lora, module_names(renamed), seed);
      network.layout = renamed;
      return lora;
    } catch (const StageError&) {
    }
    throw;  // report the error for the documented names
  }
}

void FineTuned::begin_from_adapter(FineTunedClassifier& network) const {
  if (!network.lora) return;
  const auto add = [&](std::vector<std::string> notes) {
    for (std::string& note : notes) network.notes.push_back(std::move(note));
  };
  if (config_.adapter) {
    try {
      const auto weights = network.named_parameters();
      add(begin_from(*config_.adapter, network, *network.lora,
                     {weights["head.weight"], weights["head.bias"], network.options().ordinal}));
    } catch (const StageError& error) {
      throw StageError(error.code, error.what())
          .at(error.option)
          .in_stage(config_.pointer)
          .with_help(error.help);
    }
  }
  add(without_effect(*network.lora));
}

std::string FineTuned::base_text(const FineTunedClassifier& network) const {
  const std::string of_type = std::string(" as ") + c10::toString(config_.backbone.dtype);
  if (!saved_) return "random, seed " + std::to_string(base_seed_) + of_type;
  const auto positions =
      network.named_parameters()["vision_model.embeddings.position_embedding.weight"].size(0);
  return "sha256 " + saved_->sha256 + of_type + ", " + std::to_string(positions) + " positions";
}

std::shared_ptr<FineTunedClassifier> FineTuned::make(const DatasetDescription& data,
                                                     std::uint64_t seed, at::Device device) const {
  const std::int64_t classes = fitting_classes(data, config_.num_classes, config_.pointer);
  ImageClassifierOptions options = classifier_on(config_.backbone, data, classes);
  options.dropout = config_.dropout;
  options.tower.drop_path = config_.drop_path;
  auto network = std::make_shared<FineTunedClassifier>(
      options, at::TensorOptions(config_.backbone.dtype).device(device));
  network->layout = config_.backbone.layout();
  network->weights_reference = config_.backbone.weights;
  try {
    if (config_.lora) network->lora = attach(*network, seed);
  } catch (const StageError& error) {
    throw StageError(error.code, error.what())
        .at(error.option)
        .in_stage(config_.pointer)
        .with_help(error.help);
  }
  if (config_.trains_all) return network;
  for (const auto& item : network->named_parameters()) {
    if (!config_.lora || is_of_head(item.key()))
      item.value().requires_grad_(is_of_head(item.key()));
  }
  widen_what_is_trained(*network);
  return network;
}

at::Tensor FineTuned::text_rows(const DatasetDescription& data, at::Device device) const {
  if (!config_.text_head) return {};
  if (data.pair_of > 0 || data.ordinal != OrdinalHead::kNone) {
    throw StageError(ErrorCode::kOptionConflict,
                     std::string("head_start: zero_shot needs an output for each class, but ") +
                         (data.pair_of > 0 ? "one output separates two classes"
                                           : "each output separates the classes above it from "
                                             "those below"))
        .at("/head_start")
        .in_stage(config_.pointer)
        .with_help("set head_start: uniform");
  }
  const std::vector<std::string>& words = words_of(data);
  const ScopedWholeBuild text_tower;
  return device.is_meta() ? config_.text_head->outline(words) : config_.text_head->rows(words);
}

bool FineTuned::builds_in_shards() const {
  return !config_.lora || !depends_on_weights(*config_.lora);
}

std::shared_ptr<torch::nn::Module> FineTuned::built(const DatasetDescription& data,
                                                    std::uint64_t seed, HeadStart start) const {
  // Computed before the network is created, so that the text tower has been freed by then.
  const at::Tensor rows = start == HeadStart::kZeroShot ? text_rows(data, at::kCPU) : at::Tensor();
  const auto network = make(data, seed, at::kCPU);
  allocate_own_weights(*network);
  fill_base(*network);
  if (network->lora) start_from_weights(*network->lora);
  switch (start) {
    case HeadStart::kUniform:
      initialize(*network, config_.backbone.initializer(), seed, is_of_head);
      break;
    case HeadStart::kZero:
      zero_head(*network);
      break;
    case HeadStart::kZeroShot:
      start_head(*network, rows);
      network->notes.push_back("the head starts from the captions of " +
                               std::to_string(rows.size(0)) + " classes, " +
                               std::to_string(config_.templates.size()) + " for each");
      break;
  }
  start_coral_biases(*network);
  begin_from_adapter(*network);
  if (config_.trains_all) network->start_from(base_text(*network));
  else network->freeze(base_text(*network));
  network->notes.push_back(trainable_line(*network));
  return network;
}

std::shared_ptr<torch::nn::Module> FineTuned::build(const DatasetDescription& data,
                                                    std::uint64_t seed) const {
  return built(data, seed, config_.head_start);
}

std::shared_ptr<torch::nn::Module> FineTuned::build_frozen(const DatasetDescription& data) const {
  return built(data, /*seed=*/0, HeadStart::kUniform);
}

std::shared_ptr<torch::nn::Module> FineTuned::outline(const DatasetDescription& data) const {
  text_rows(data, at::kMeta);  // so that plans include its memory
  return outline_frozen(data);
}

std::shared_ptr<torch::nn::Module> FineTuned::outline_frozen(const DatasetDescription& data) const {
  const auto network = make(data, 0, at::kMeta);
  allocate_own_weights(*network);
  begin_from_adapter(*network);
  if (config_.trains_all) network->start_from("");
  else network->freeze("");
  return network;
}

Shrunken FineTuned::shrunken(const DatasetDescription& data) const {
  FineTunedConfig config = config_;
  BackboneConfig& backbone = config.backbone;
  backbone.weights.reset();
  backbone.dtype = at::kFloat;
  config.adapter.reset();
  config.text_head.reset();
  if (config.head_start == HeadStart::kZeroShot) config.head_start = HeadStart::kUniform;
  if (config.lora) config.lora->initialization = initialization_of_shrunken(*config.lora);
  shrink(backbone.tower, backbone.image_size, backbone.projection_dim);
  const bool is_projection = is_projected(backbone.feature);
  const std::int64_t width =
      is_projection ? *backbone.projection_dim : backbone.tower.block.hidden_size;
  return {std::make_shared<FineTuned>(std::move(config), nullptr, base_seed_),
          shrunken_data(data, width)};
}

NamedTensors FineTuned::forward(torch::nn::Module& network, const NamedTensors& inputs) const {
  const FineTunedClassifier& classifier = as_classifier(network);
  if (!inputs.contains("features")) return classifier.forward(inputs.at("image"));
  const at::Tensor& features = inputs.at("features");
  return {{"logits", classifier.classify(features)}, {"features", features}};
}

NamedTensors FineTuned::frozen_features(torch::nn::Module& network,
                                        const NamedTensors& inputs) const {
  return {{"features", as_classifier(network).features(inputs.at("image"))}};
}

std::vector<std::string> FineTuned::notes(const torch::nn::Module& network) const {
  const auto* classifier = dynamic_cast<const FineTunedClassifier*>(&network);
  return classifier ? classifier->notes : std::vector<std::string>();
}

}  // namespace stages
