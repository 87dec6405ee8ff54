#include <algorithm>
#include <string>

#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/stage.h"
#include "stages/model/convolutional_classifier.h"

namespace stages {
namespace {

runner::Result<std::unique_ptr<runner::Stage>> create_se_resnext(runner::ConfigReader& reader) {
  BottleneckOptions network;
  std::vector<std::int64_t> layers;
  reader.read("layers", layers);
  std::ranges::copy_n(layers.begin(),
                      static_cast<std::ptrdiff_t>(std::min(layers.size(), network.layers.size())),
                      network.layers.begin());
  reader.read("cardinality", network.cardinality);
  reader.read("base_width", network.base_width);
  reader.read("squeeze_ratio", network.squeeze_ratio);
  ConvolutionalClassifierConfig config{.name = "SE-ResNeXt", .backbone = network};
  std::vector<std::string> parts;
  reader.read("frozen", parts);
  for (const std::string& part : parts) {
    if (part == "stem") config.frozen.insert(config.frozen.end(), {"conv1", "bn1"});
    else config.frozen.push_back(part);
  }
  return convolutional_classifier_stage(reader, std::move(config));
}

}  // namespace

extern const runner::StageKind kModelSeResnext = {"model.se_resnext", create_se_resnext};

}  // namespace stages
