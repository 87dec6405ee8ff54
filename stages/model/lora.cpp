#include "runner/config_reader.h"
#include "runner/stage.h"
#include "stages/model/fine_tuned_stage.h"
#include "stages/stages.h"

namespace stages {
namespace {

runner::Result<std::unique_ptr<runner::Stage>> create(runner::ConfigReader& reader) {
  FineTunedConfig config;
  config.lora = read_lora_options(reader);
  reader.read("adapter", config.adapter);
  return fine_tuned_stage(reader, std::move(config));
}

}  // namespace

const runner::StageKind kModelLora = {"model.lora", create};

}  // namespace stages
