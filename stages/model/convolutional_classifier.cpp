#include "stages/model/convolutional_classifier.h"

#include <algorithm>
#include <stdexcept>

#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "runner/shared/stage/stage.h"
#include "stages/model/image_size.h"
#include "stages/model/timm_weights.h"

namespace stages {
namespace {

using runner::ErrorCode;
using runner::StageError;

ConvolutionalClassifierNetwork& as_convolutional(torch::nn::Module& network) {
  auto* classifier = dynamic_cast<ConvolutionalClassifierNetwork*>(&network);
  if (!classifier) throw std::logic_error("not a network that ConvolutionalClassifier::build() has made");
  return *classifier;
}

/// The module itself or one in it.
bool is_below(std::string_view path, std::string_view module) {
  return path.starts_with(module) && (path.size() == module.size() || path[module.size()] == '.');
}

/// A part's norms keep their statistics too.
void freeze(FeatureMaps& backbone, const std::vector<std::string>& modules) {
  const auto is_frozen = [&](const std::string& path) {
    return std::ranges::any_of(modules, [&](const std::string& module) { return is_below(path, module); });
  };
  for (const auto& item : backbone.named_parameters()) {
    if (is_frozen(item.key())) item.value().requires_grad_(false);
  }
  for (const auto& item : backbone.named_modules()) {
    if (auto* norm = item.value()->as<BatchNorm>(); norm && is_frozen(item.key())) norm->fix_statistics();
  }
}

/// Throws where the backbone can make nothing of such images.
void check_images(const ConvolutionalClassifierConfig& config, const FeatureMaps& backbone,
                  const DatasetDescription& data) {
  const auto image = std::ranges::find(data.tensors, "image", &TensorSpec::name);
  if (image == data.tensors.end() || image->shape.size() != 3 || image->shape[0] != 3) {
    throw StageError(ErrorCode::kOptionConflict, "the data has no images of three channels")
        .in_stage(config.pointer)
        .with_help("this model classifies colour images: wire it to a data stage that gives them");
  }
  if (backbone.shape(image->shape[1], image->shape[2])) return;
  std::int64_t least = 1;
  while (!backbone.shape(least, least)) ++least;
  throw StageError(ErrorCode::kOptionConflict, "images of " + std::to_string(image->shape[1]) + " x " +
                                                   std::to_string(image->shape[2]) + " pixels are too small for " +
                                                   config.name + ", which pools them")
      .in_stage(config.pointer)
      .with_help("set the data stage's image_size to " + std::to_string(least) + " or more");
}

/// Where the saved weights go. Throws where they do not fit.
std::unique_ptr<TimmWeightPlaces> fitting_places(const ConvolutionalClassifierConfig& config, FeatureMaps& backbone,
                                                 const SavedWeights& saved) {
  auto places = [&] {
    try {
      return std::make_unique<TimmWeightPlaces>(backbone, saved.tensors);
    } catch (const StageError& error) {
      throw StageError(error.code, "'" + *config.weights + "': " + error.what())
          .at("/weights")
          .in_stage(config.pointer)
          .with_help(error.help);
    }
  }();
  const TimmWeightsReport& report = places->report();
  if (report.fits()) return places;
  const auto refuse = [&](const std::string& message, const std::string& help) {
    throw StageError(ErrorCode::kDamagedWeights, message).at("/weights").in_stage(config.pointer).with_help(help);
  };
  const std::string file = "the weights '" + *config.weights + "' ";
  if (report.has_cadene_names) {
    refuse(file + "have Cadene's names (layer0, se_module, last_linear), as timm's legacy_seresnext50_32x4d has",
           "give timm's weights of " + config.name + ", or rename these");
  }
  refuse(file + "do not fit " + config.name + ": " + report.misfits(),
         "give timm's weights of this very network: what is missing would be random");
  return places;
}

}  // namespace

bool has_module(const FeatureMaps& backbone, const std::string& path) {
  const auto modules = backbone.named_modules();
  return !path.empty() && std::ranges::any_of(modules, [&](const auto& item) { return item.key() == path; });
}

ConvolutionalClassifierNetwork::ConvolutionalClassifierNetwork(const ConvolutionalClassifierConfig& config,
                                                               std::int64_t outputs, const at::TensorOptions& options)
    : backbone_(register_module("backbone", make_backbone(config.backbone, options))) {
  constexpr std::int64_t kAnySize = 224;
  const std::int64_t channels = backbone_->shape(kAnySize, kAnySize)->channels;
  head_ = register_module("classifier", std::make_shared<ClassifierHead>(config.head, channels, outputs, options));
  freeze(*backbone_, config.frozen);
}

at::Tensor ConvolutionalClassifierNetwork::features(const at::Tensor& pixels) const {
  const OwnPrecision own(*this);
  return backbone_->forward(own(pixels)).mean({2, 3});
}

NamedTensors ConvolutionalClassifierNetwork::forward(const at::Tensor& pixels) const {
  const OwnPrecision own(*this);
  const at::Tensor seen = features(pixels);
  return {{"logits", head_->forward(seen)}, {"features", seen}};
}

std::shared_ptr<ConvolutionalClassifierNetwork> ConvolutionalClassifier::make(const DatasetDescription& data,
                                                                              at::Device device) const {
  const std::int64_t outputs = fitting_classes(data, config_.num_classes, config_.pointer);
  auto network =
      std::make_shared<ConvolutionalClassifierNetwork>(config_, outputs, at::TensorOptions(at::kFloat).device(device));
  check_images(config_, network->backbone(), data);
  return network;
}

std::shared_ptr<torch::nn::Module> ConvolutionalClassifier::build(const DatasetDescription& data,
                                                                  std::uint64_t seed) const {
  const auto network = make(data, at::kCPU);
  network->head().initialize("classifier", seed);
  if (!saved_) {
    initialize_backbone(config_.backbone, network->backbone(), seed);
    return network;
  }
  const auto places = fitting_places(config_, network->backbone(), *saved_);
  try {
    const torch::NoGradGuard no_graph;
    read_saved_weights(*config_.weights, saved_->sha256, places->sink(), config_.weights_entry);
  } catch (const StageError& error) {
    throw StageError(error.code, error.what()).at("/weights").in_stage(config_.pointer).with_help(error.help);
  }
  network->notes.push_back("'" + *config_.weights + "': " + saved_->choice() + places->report().text());
  return network;
}

std::shared_ptr<torch::nn::Module> ConvolutionalClassifier::outline(const DatasetDescription& data) const {
  return make(data, at::kMeta);
}

void ConvolutionalClassifier::check_weights() const {
  if (!saved_) return;
  const auto backbone = make_backbone(config_.backbone, at::TensorOptions(at::kFloat).device(at::kMeta));
  fitting_places(config_, *backbone, *saved_);
}

NamedTensors ConvolutionalClassifier::forward(torch::nn::Module& network, const NamedTensors& inputs) const {
  return as_convolutional(network).forward(inputs.at("image"));
}

Shrunken ConvolutionalClassifier::shrunken(const DatasetDescription& data) const {
  constexpr std::int64_t kSmallImage = 64, kSmallWidth = 8;
  ConvolutionalClassifierConfig config = config_;
  config.backbone = shrunken_backbone(config.backbone);
  config.weights.reset();
  for (std::int64_t& width : config.head.widths) width = std::min(width, kSmallWidth);
  DatasetDescription small = data;
  for (TensorSpec& tensor : small.tensors) {
    if (tensor.name == "image") tensor.shape = {3, kSmallImage, kSmallImage};
  }
  return {std::make_shared<ConvolutionalClassifier>(std::move(config), nullptr), small};
}

std::vector<std::string> ConvolutionalClassifier::notes(const torch::nn::Module& network) const {
  const auto* classifier = dynamic_cast<const ConvolutionalClassifierNetwork*>(&network);
  return classifier ? classifier->notes : std::vector<std::string>();
}

}  // namespace stages
