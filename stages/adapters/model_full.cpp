#include <optional>
#include <string>

#include <torch/types.h>

#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/stage.h"
#include "stages/adapters/model_linear_probe.h"
#include "stages/model/backbone_options.h"
#include "stages/model/convolutional_classifier.h"
#include "stages/model/initializer.h"

namespace stages {
namespace {

using runner::ConfigReader;
using runner::ErrorCode;

/// The options of model.full in addition to its backbone.
struct FullOptions {
  HeadOptions head;
  double dropout = 0;
};

FullOptions read_full_options(ConfigReader& reader) {
  FullOptions options{.head = read_head(reader)};
  reader.read("dropout", options.dropout);
  return options;
}

std::optional<std::string> backbone_kind(ConfigReader& reader) {
  const runner::Value* const backbone = reader.raw("backbone");
  const runner::Value* const kind = backbone ? backbone->find("kind") : nullptr;
  return kind && kind->text() ? std::optional(*kind->text()) : std::nullopt;
}

/// Reports options of a convolutional backbone that model.full does not support.
void check_backbone(ConfigReader& backbone) {
  bool is_trainable = false;
  backbone.read("trainable", is_trainable);
  if (!is_trainable)
    backbone.fail("trainable", ErrorCode::kOptionConflict,
                  "trainable is false, but model.full trains all weights", "set trainable: true");
  const bool is_by_batch =
      runner::choice<bool>(backbone, "batch_norm", {{"running", false}, {"batch", true}});
  if (is_by_batch)
    backbone.fail("batch_norm", ErrorCode::kOptionConflict,
                  "batch_norm: batch normalizes an image using the other images of its episode, "
                  "but model.full classifies single images",
                  "set batch_norm: running");
}

runner::Result<std::unique_ptr<runner::Stage>> create_convolutional(ConfigReader& reader,
                                                                    const FullOptions& options) {
  ConvolutionalClassifierConfig config{.weights_option = "/backbone/weights"};
  config.pointer = reader.pointer();
  ConfigReader& backbone = reader.section("backbone");
  std::string kind;
  backbone.read("kind", kind);
  check_backbone(backbone);
  if (kind == "resnet") {
    ResNetOptions network = read_resnet(backbone, config.weights, config.weights_entry);
    network.statistics = BatchNormStatistics::kCollected;
    config.name = "ResNet-" + std::to_string(network.depth);
    config.backbone = network;
  } else {
    ConvNetworkOptions network = read_conv_network(backbone);
    config.name = "conv of " + std::to_string(network.blocks) + " blocks";
    config.backbone = network;
  }
  read_drop_path(reader, config);
  if (options.head.start == HeadStart::kZeroShot)
    reader.fail("head_start", ErrorCode::kOptionConflict,
                "head_start: zero_shot needs a text tower, but this backbone is a convolutional "
                "network",
                "choose a backbone of kind clip_vision, or set head_start: uniform");
  runner::read_or_auto(reader, "num_classes", config.num_classes);
  config.head.dropout = options.dropout;
  config.head_start = options.head.start;
  return convolutional_stage(reader, std::move(config));
}

runner::Result<std::unique_ptr<runner::Stage>> create_full(ConfigReader& reader) {
  const FullOptions options = read_full_options(reader);
  const std::optional<std::string> kind = backbone_kind(reader);
  if (kind == "resnet" || kind == "conv") return create_convolutional(reader, options);
  FineTunedConfig config;
  config.trains_all = true;
  config.head_start = options.head.start;
  config.templates = options.head.templates;
  config.dropout = options.dropout;
  reader.read("drop_path", config.drop_path);
  return fine_tuned_stage(reader, std::move(config));
}

}  // namespace

extern const runner::StageKind kModelFull = {"model.full", create_full};

}  // namespace stages
