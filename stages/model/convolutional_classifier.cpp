#include "stages/model/convolutional_classifier.h"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>

#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>
#include <nlohmann/json.hpp>

#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/run_context.h"
#include "runner/shared/stage/stage.h"
#include "stages/model/backbone_weights.h"
#include "stages/model/clip_vision.h"
#include "stages/model/coral_layer.h"
#include "stages/model/initializer.h"
#include "stages/numerics/sharded_build.h"

namespace stages {
namespace {

using runner::ErrorCode;
using runner::StageError;

ConvolutionalClassifierNetwork& as_convolutional(torch::nn::Module& network) {
  auto* classifier = dynamic_cast<ConvolutionalClassifierNetwork*>(&network);
  if (!classifier) throw std::logic_error("not a network made by ConvolutionalClassifier::build()");
  return *classifier;
}

/// True if `path` is `module` itself or a module in it.
bool is_below(std::string_view path, std::string_view module) {
  return path.starts_with(module) && (path.size() == module.size() || path[module.size()] == '.');
}

/// True if `path` is in one of the frozen modules.
bool is_frozen_by(const std::vector<std::string>& modules, const std::string& path) {
  return std::ranges::any_of(modules,
                             [&](const std::string& module) { return is_below(path, module); });
}

/// Freezes modules: their parameters, and the running statistics of their norms.
void freeze(FeatureMaps& backbone, const std::vector<std::string>& modules) {
  const auto is_frozen = [&](const std::string& path) { return is_frozen_by(modules, path); };
  for (const auto& item : backbone.named_parameters()) {
    if (is_frozen(item.key())) item.value().requires_grad_(false);
  }
  for (const auto& item : backbone.named_modules()) {
    if (auto* norm = item.value()->as<BatchNorm>(); norm && is_frozen(item.key()))
      norm->fix_statistics();
  }
}

/// Throws if the backbone cannot process these images.
void check_images(const ConvolutionalClassifierConfig& config, const FeatureMaps& backbone,
                  const DatasetDescription& data) {
  const auto image = std::ranges::find(data.tensors, "image", &TensorSpec::name);
  if (image == data.tensors.end() || image->shape.size() != 3 || image->shape[0] != 3) {
    throw StageError(ErrorCode::kOptionConflict, "the data has no three-channel images")
        .in_stage(config.pointer)
        .with_help(
            "this model classifies color images: connect it to a data stage with such images");
  }
  if (backbone.shape(image->shape[1], image->shape[2])) return;
  std::int64_t least = 1;
  while (!backbone.shape(least, least)) ++least;
  throw StageError(ErrorCode::kOptionConflict, "images of " + std::to_string(image->shape[1]) +
                                                   " x " + std::to_string(image->shape[2]) +
                                                   " pixels are too small for " + config.name +
                                                   ", which pools them")
      .in_stage(config.pointer)
      .with_help("set the data stage's image_size to " + std::to_string(least) + " or more");
}

}  // namespace

void read_drop_path(runner::ConfigReader& reader, ConvolutionalClassifierConfig& config) {
  double drop_path = 0;
  reader.read("drop_path", drop_path);
  if (drop_path == 0) return;
  const std::optional<ConvolutionalBackbone> skipping = with_drop_path(config.backbone, drop_path);
  if (!skipping) {
    reader.fail("drop_path", ErrorCode::kOptionConflict,
                "drop_path skips residual blocks, but " + config.name + " has none",
                "set drop_path: 0, or choose a network with residual blocks");
    return;
  }
  const auto backbone = make_backbone(*skipping, at::TensorOptions(at::kFloat).device(at::kMeta));
  const auto modules = backbone->named_modules();
  const auto is_trained_block = [&](const auto& item) {
    return item.key().ends_with(".drop_path") && !is_frozen_by(config.frozen, item.key());
  };
  if (std::ranges::none_of(modules, is_trained_block)) {
    reader.fail(
        "drop_path", ErrorCode::kOptionConflict,
        "drop_path skips blocks in training, but 'frozen' freezes every block that it skips",
        "set drop_path: 0, or freeze fewer blocks");
  }
  config.backbone = *skipping;
}

bool has_module(const FeatureMaps& backbone, const std::string& path) {
  const auto modules = backbone.named_modules();
  return !path.empty() &&
         std::ranges::any_of(modules, [&](const auto& item) { return item.key() == path; });
}

ConvolutionalClassifierNetwork::ConvolutionalClassifierNetwork(
    const ConvolutionalClassifierConfig& config, std::int64_t outputs,
    const at::TensorOptions& options)
    : backbone_(register_module("backbone", make_backbone(config.backbone, options))) {
  constexpr std::int64_t kAnySize = 224;
  const std::int64_t channels = backbone_->shape(kAnySize, kAnySize)->channels;
  head_ = register_module(
      "classifier", std::make_shared<ClassifierHead>(config.head, channels, outputs, options));
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

std::shared_ptr<ConvolutionalClassifierNetwork> ConvolutionalClassifier::make(
    const DatasetDescription& data, at::Device device) const {
  const std::int64_t outputs = fitting_classes(data, config_.num_classes, config_.pointer);
  ConvolutionalClassifierConfig config = config_;
  config.head.ordinal = data.ordinal;
  auto network = std::make_shared<ConvolutionalClassifierNetwork>(
      config, outputs, at::TensorOptions(at::kFloat).device(device));
  check_images(config_, network->backbone(), data);
  return network;
}

std::shared_ptr<torch::nn::Module> ConvolutionalClassifier::build(const DatasetDescription& data,
                                                                  std::uint64_t seed) const {
  const auto network = make(data, at::kCPU);
  allocate_own_weights(*network);
  if (config_.head_start == HeadStart::kZero) network->head().make_zero();
  else network->head().initialize("classifier", seed);
  start_coral_biases(*network);
  if (!saved_) {
    initialize_backbone(config_.backbone, network->backbone(), seed);
    return network;
  }
  BackboneWeights places(config_, network->backbone(), *saved_);
  try {
    const torch::NoGradGuard no_graph;
    read_saved_weights(*config_.weights, saved_->sha256, places.sink(), config_.weights_entry);
  } catch (const StageError& error) {
    throw StageError(error.code, error.what())
        .at(config_.weights_option)
        .in_stage(config_.pointer)
        .with_help(error.help);
  }
  network->notes.push_back("'" + *config_.weights + "': " + saved_->choice() + places.text());
  return network;
}

std::shared_ptr<torch::nn::Module> ConvolutionalClassifier::outline(
    const DatasetDescription& data) const {
  auto network = make(data, at::kMeta);
  allocate_own_weights(*network);
  return network;
}

void ConvolutionalClassifier::check_weights() const {
  if (!saved_) return;
  const auto backbone =
      make_backbone(config_.backbone, at::TensorOptions(at::kFloat).device(at::kMeta));
  BackboneWeights(config_, *backbone, *saved_);
}

NamedTensors ConvolutionalClassifier::forward(torch::nn::Module& network,
                                              const NamedTensors& inputs) const {
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

namespace {

using runner::StageError;

class ConvolutionalClassifierStage : public runner::Stage {
 public:
  explicit ConvolutionalClassifierStage(ConvolutionalClassifierConfig config)
      : config_(std::move(config)) {}

  std::string fingerprint() const override {
    if (!config_.weights) return "";
    if (!sha256_) sha256_ = weights_sha256(*config_.weights);
    return *sha256_;
  }
  /// False: random weights are drawn with the training stage's seed.
  bool uses_seed() const override { return false; }

  runner::Outputs run(const runner::Inputs&, runner::RunContext&) override {
    auto model = std::make_shared<ConvolutionalClassifier>(config_, shapes_of_weights());
    model->check_weights();
    return {{"model", std::move(model)}};
  }

 private:
  /// Returns the shapes and the digest of the weights; null if the model starts from random ones.
  std::shared_ptr<const SavedWeights> shapes_of_weights() const {
    if (!config_.weights) return nullptr;
    try {
      auto saved = std::make_shared<SavedWeights>(
          read_saved_weights(*config_.weights, WeightContents::kShapes, config_.weights_entry));
      saved->sha256 = fingerprint();
      return saved;
    } catch (const StageError& error) {
      throw StageError(error.code, error.what())
          .at(config_.weights_option)
          .in_stage(config_.pointer)
          .with_help(error.help);
    }
  }

  const ConvolutionalClassifierConfig config_;
  mutable std::optional<std::string> sha256_;  // SHA-256 of the weights, computed once
};

}  // namespace

runner::Result<std::unique_ptr<runner::Stage>> convolutional_classifier_stage(
    runner::ConfigReader& reader, ConvolutionalClassifierConfig config) {
  config.pointer = reader.pointer();
  read_drop_path(reader, config);
  reader.read("weights", config.weights);
  reader.read("weights_entry", config.weights_entry);
  if (config.weights) {
    try {
      find_weights(*config.weights);
    } catch (const StageError& error) {
      reader.fail("weights", error.code, error.what(), error.help);
    }
  }
  runner::read_or_auto(reader, "num_classes", config.num_classes);
  runner::ConfigReader& head = reader.section("head");
  head.read("widths", config.head.widths);
  head.read("dropout", config.head.dropout);
  return convolutional_stage(reader, std::move(config));
}

runner::Result<std::unique_ptr<runner::Stage>> convolutional_stage(
    runner::ConfigReader& reader, ConvolutionalClassifierConfig config) {
  if (runner::Diagnostics errors = reader.finish(); !errors.empty()) return errors;
  return std::unique_ptr<runner::Stage>(
      std::make_unique<ConvolutionalClassifierStage>(std::move(config)));
}

}  // namespace stages
