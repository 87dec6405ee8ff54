#include <string>

#include <torch/types.h>

#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/stage.h"
#include "runner/shared/text/join.h"
#include "stages/model/convolutional_classifier.h"

namespace stages {
namespace {

using runner::ErrorCode;

/// Returns the names of the parts that a user may want to freeze: "conv1, bn1, layer1, …".
std::string parts_of(const FeatureMaps& backbone) {
  std::vector<std::string> parts;
  for (const auto& item : backbone.named_children()) {
    const std::string& name = item.key();
    if (name != "features" && name != "blocks") parts.push_back(name);
    else
      for (const auto& child : item.value()->named_children())
        parts.push_back(name + "." + child.key());
  }
  return runner::listed(parts, parts.size());
}

runner::Result<std::unique_ptr<runner::Stage>> create_cnn(runner::ConfigReader& reader) {
  const auto architectures = convolutional_architectures();
  ConvolutionalClassifierConfig config{.backbone = runner::choice<ConvolutionalBackbone>(
                                           reader, "architecture", std::span(architectures))};
  reader.read("architecture", config.name);
  reader.read("frozen", config.frozen);
  const auto backbone =
      make_backbone(config.backbone, at::TensorOptions(at::kFloat).device(at::kMeta));
  for (const std::string& path : config.frozen) {
    if (has_module(*backbone, path)) continue;
    reader.fail("frozen", ErrorCode::kOptionConflict, config.name + " has no module '" + path + "'",
                "choose modules of the backbone: " + parts_of(*backbone));
  }
  return convolutional_classifier_stage(reader, std::move(config));
}

}  // namespace

extern const runner::StageKind kModelCnn = {"model.cnn", create_cnn};

}  // namespace stages
