#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/stage.h"
#include "stages/adapters/model_linear_probe.h"

namespace stages {
namespace {

runner::Result<std::unique_ptr<runner::Stage>> create_lora(runner::ConfigReader& reader) {
  FineTunedConfig config;
  config.lora = read_lora_options(reader);
  reader.read("adapter", config.adapter);
  // The adapter overwrites whatever values the initialization produces.
  if (config.adapter) config.lora->initialization = LoraInitialization::kKaiming;
  return fine_tuned_stage(reader, std::move(config));
}

}  // namespace

extern const runner::StageKind kModelLora = {"model.lora", create_lora};

}  // namespace stages
