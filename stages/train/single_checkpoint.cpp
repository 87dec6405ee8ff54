#include "stages/train/single_checkpoint.h"

#include <filesystem>
#include <string>
#include <utility>

#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>
#include <nlohmann/json.hpp>

#include "runner/shared/stage/run_context.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/stage/stage.h"
#include "stages/checkpoint/checkpoints.h"
#include "stages/memory/policy.h"
#include "stages/random/generator_state.h"
#include "stages/weights/weights.h"

namespace stages {

TrainerOptions options_of_single() {
  TrainerOptions options;
  options.keep = Keep::kLast;
  return options;
}

std::shared_ptr<Checkpoint> single_checkpoint(const runner::Inputs& inputs,
                                              const std::optional<EarlierWeights>& trained) {
  const DatasetDescription data =
      trained ? trained->data : source_of(inputs.get<Dataset>("train")->describe());
  auto checkpoint = std::make_shared<Checkpoint>();
  checkpoint->model = inputs.get<Model>("model");
  checkpoint->model_stage = inputs.source("model");
  checkpoint->numerics = inputs.get<MemoryPolicy>("memory")->numerics();
  checkpoint->describe(data);
  return checkpoint;
}

void reuse_single(const EarlierWeights& trained, Checkpoint& checkpoint,
                  runner::RunContext& context) {
  checkpoint.network = checkpoint.model->build(trained.data, context.node().seed);
  TrainingResult result = load_earlier_weights(trained, *checkpoint.network, context);
  checkpoint.epoch = result.epoch;
  checkpoint.step = result.step;
  checkpoint.file = std::move(result.file);
  checkpoint.validation = std::move(result.validation);
}

void begin_single(runner::RunContext& context) {
  if (!context.node().resuming) return;
  std::filesystem::remove_all(runner::NodeLayout(context.node().folder).checkpoints());
  context.resumed(0, 0);
}

void save_single(Checkpoint& checkpoint, const DatasetDescription& images,
                 runner::RunContext& context) {
  TrainingState state;
  state.model = weights(*checkpoint.network);
  state.step = state.epoch = checkpoint.step = checkpoint.epoch = 1;
  state.metrics = context.sync_metrics();
  state.seed = context.node().seed;
  state.threads = at::get_num_threads();
  state.recipe_hash = context.node().recipe_hash;
  state.random = generator_state(at::kCPU);
  state.about = describe_data(images);
  state.about["format"] = "pt";
  state.about["epoch"] = state.about["step"] = "1";
  if (!checkpoint.validation.empty())
    state.about["validation"] = nlohmann::json(checkpoint.validation).dump();
  if (const std::string base = base_of(*checkpoint.network); !base.empty())
    state.about["base"] = base;
  Checkpoints checkpoints(runner::NodeLayout(context.node().folder).checkpoints(), {});
  checkpoint.file = checkpoints.save(state) / "model.safetensors";
}

}  // namespace stages
