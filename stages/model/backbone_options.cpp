#include "stages/model/backbone_options.h"

#include "runner/shared/error/stage_error.h"
#include "runner/shared/stage/config_reader.h"
#include "stages/weights/saved_weights.h"

namespace stages {

ConvNetworkOptions read_conv_network(runner::ConfigReader& reader) {
  ConvNetworkOptions options;
  reader.read("blocks", options.blocks);
  reader.read("channels", options.channels);
  return options;
}

ResNetOptions read_resnet(runner::ConfigReader& reader, std::optional<std::string>& weights,
                          std::optional<std::string>& weights_entry) {
  ResNetOptions options;
  reader.read("depth", options.depth);
  options.stem = runner::choice<ResNetStem>(
      reader, "stem", {{"imagenet", ResNetStem::kImageNet}, {"feti", ResNetStem::kFeti}});
  reader.read("weights", weights);
  reader.read("weights_entry", weights_entry);
  reader.raw("pretraining");  // shown with the results, not used here
  if (!weights) return options;
  try {
    find_weights(*weights);
  } catch (const runner::StageError& error) {
    reader.fail("weights", error.code, error.what(), error.help);
  }
  return options;
}

}  // namespace stages
