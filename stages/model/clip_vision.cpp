#include "stages/model/clip_vision.h"

#include <algorithm>
#include <cassert>
#include <vector>

#include <torch/nn/module.h>
#include <torch/types.h>

#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/run_context.h"
#include "runner/shared/stage/stage.h"
#include "stages/model/coral_layer.h"
#include "stages/model/initializer.h"
#include "stages/model/vision_tower.h"
#include "stages/numerics/sharded_build.h"

namespace stages {
namespace {

using runner::StageError;

class ClipVisionStage : public runner::Stage {
 public:
  explicit ClipVisionStage(const ClipVisionConfig& config) : config_(config) {}

  bool uses_seed() const override { return false; }

  runner::Outputs run(const runner::Inputs&, runner::RunContext& context) override {
    ClipVisionConfig config = config_;
    if (config.projection_dim && !is_projected(config.feature)) {
      const std::int64_t bytes = 4 * config.tower.block.hidden_size * *config.projection_dim;
      context.say("projection_dim has no effect with 'features: pooled': its weights, " +
                  std::to_string(bytes) + " bytes, are left out");
      config.projection_dim.reset();
    }
    return {{"model", std::make_shared<ClipVision>(config)}};
  }

 private:
  const ClipVisionConfig config_;
};

runner::Result<std::unique_ptr<runner::Stage>> create_tower(runner::ConfigReader& reader) {
  ClipVisionConfig config;
  config.pointer = reader.pointer();
  VisionTowerOptions& tower = config.tower;
  reader.read("hidden_size", tower.block.hidden_size);
  reader.read("intermediate_size", tower.block.intermediate_size);
  reader.read("num_attention_heads", tower.block.num_attention_heads);
  reader.read("layer_norm_eps", tower.block.layer_norm_eps);
  tower.block.hidden_act = runner::choice<Activation>(reader, "hidden_act", kActivations);
  reader.read("num_hidden_layers", tower.num_hidden_layers);
  reader.read("patch_size", tower.patch_size);
  runner::read_or_auto(reader, "image_size", config.image_size);
  reader.read("projection_dim", config.projection_dim);
  runner::read_or_auto(reader, "num_classes", config.num_classes);
  config.feature = runner::choice<Feature>(reader, "features", kFeatures);
  reader.read("attention_dropout", tower.block.attention_dropout);
  reader.read("drop_path", tower.drop_path);
  reader.read("dropout", config.dropout);
  reader.read("initializer_range", config.initializer_range);
  reader.read("initializer_factor", config.initializer_factor);
  if (runner::Diagnostics errors = reader.finish(); !errors.empty()) return errors;

  return std::unique_ptr<runner::Stage>(std::make_unique<ClipVisionStage>(config));
}

}  // namespace

ImageClassifierOptions ClipVision::fit(const DatasetDescription& data) const {
  ImageClassifierOptions options{config_.tower, config_.feature, config_.projection_dim, 0,
                                 config_.dropout};
  options.tower.image_size =
      fitting_image_size(data, config_.image_size, config_.tower.patch_size, config_.pointer);
  options.num_classes = fitting_classes(data, config_.num_classes, config_.pointer);
  options.ordinal = data.ordinal;
  return options;
}

std::shared_ptr<ImageClassifier> ClipVision::make(const DatasetDescription& data,
                                                  c10::Device device) const {
  auto network =
      std::make_shared<ImageClassifier>(fit(data), at::TensorOptions(at::kFloat).device(device));
  allocate_own_weights(*network);
  return network;
}

std::shared_ptr<torch::nn::Module> ClipVision::build(const DatasetDescription& data,
                                                     std::uint64_t seed) const {
  const auto network = make(data, at::kCPU);
  initialize(*network,
             {config_.tower.block.hidden_size, config_.tower.num_hidden_layers,
              config_.initializer_range, config_.initializer_factor},
             seed);
  start_coral_biases(*network);
  return network;
}

Shrunken ClipVision::shrunken(const DatasetDescription& data) const {
  ClipVisionConfig config = config_;
  shrink(config.tower, config.image_size, config.projection_dim);
  const bool is_projection = is_projected(config.feature);
  const std::int64_t width =
      is_projection ? *config.projection_dim : config.tower.block.hidden_size;
  return {std::make_shared<ClipVision>(config), shrunken_data(data, width)};
}

std::shared_ptr<torch::nn::Module> ClipVision::outline(const DatasetDescription& data) const {
  return make(data, at::kMeta);
}

NamedTensors ClipVision::forward(torch::nn::Module& network, const NamedTensors& inputs) const {
  const auto* classifier = dynamic_cast<const ImageClassifier*>(&network);
  if (!classifier) throw std::logic_error("model.clip_vision: not a network made by build()");
  return classifier->forward(inputs.at("image"));
}

extern const runner::StageKind kModelClipVision = {"model.clip_vision", create_tower};

namespace {

using runner::ErrorCode;
using runner::StageError;

/// Returns the height and width of the data's images, which must be square.
std::int64_t square_size(const DatasetDescription& data, const std::string& pointer) {
  const auto image = std::ranges::find(data.tensors, "image", &TensorSpec::name);
  if (image == data.tensors.end() || image->shape.size() != 3 || image->shape[0] != 3) {
    throw StageError(ErrorCode::kOptionConflict, "the data has no three-channel images")
        .in_stage(pointer)
        .with_help(
            "this model classifies color images: connect it to a data stage with such images");
  }
  if (image->shape[1] != image->shape[2]) {
    throw StageError(ErrorCode::kOptionConflict,
                     "the data's images are " + std::to_string(image->shape[1]) +
                         " pixels high and " + std::to_string(image->shape[2]) +
                         " wide, but the model needs square images")
        .at("/image_size")
        .in_stage(pointer)
        .with_help("let the data stage crop them to squares");
  }
  return image->shape[1];
}

}  // namespace

std::string not_a_multiple(std::string_view what, std::int64_t value, std::string_view by,
                           std::int64_t divisor) {
  return std::string(what) + " " + std::to_string(value) + " is not a multiple of " +
         std::string(by) + " " + std::to_string(divisor);
}

std::int64_t fitting_image_size(const DatasetDescription& data, std::optional<std::int64_t> wanted,
                                std::int64_t patch_size, const std::string& pointer) {
  const std::int64_t size = square_size(data, pointer);
  if (wanted && *wanted != size) {
    throw StageError(ErrorCode::kOptionConflict, "the data's images are " + std::to_string(size) +
                                                     " pixels wide, but the model expects " +
                                                     std::to_string(*wanted))
        .at("/image_size")
        .in_stage(pointer)
        .with_help("set 'image_size: auto', or change the data stage's image_size");
  }
  if (size % patch_size != 0) {
    throw StageError(ErrorCode::kOptionConflict,
                     not_a_multiple("the data's image size", size, "patch_size", patch_size))
        .at("/patch_size")
        .in_stage(pointer)
        .with_help("change image_size or patch_size; an image is cut into whole patches");
  }
  return size;
}

std::int64_t fitting_classes(const DatasetDescription& data, std::optional<std::int64_t> wanted,
                             const std::string& pointer) {
  const auto classes = static_cast<std::int64_t>(data.classes.size());
  if (classes == 0) {
    throw StageError(ErrorCode::kLabelOutOfRange, "the data has no classes")
        .at("/num_classes")
        .in_stage(pointer)
        .with_help("a classifier needs labeled data");
  }
  const std::int64_t in_all = data.pair_of > 0 ? data.pair_of : classes;
  if (wanted && *wanted != in_all) {
    throw StageError(ErrorCode::kLabelOutOfRange, "num_classes is " + std::to_string(*wanted) +
                                                      ", but the data has " +
                                                      std::to_string(in_all) + " classes")
        .at("/num_classes")
        .in_stage(pointer)
        .with_help("set 'num_classes: auto'");
  }
  return logits_for(data);
}

}  // namespace stages
