#include "stages/train/step_assembly.h"

#include <algorithm>

#include <torch/torch.h>

#include "runner/stage/run_context.h"
#include "stages/train/parameter_groups.h"

namespace stages {

StepExecution assemble_step(const TrainingStep& step, torch::nn::Module& network, std::int64_t samples,
                            const TrainerOptions& options, const MemoryPolicy& policy, c10::Device device,
                            runner::RunContext& context) {
  network.train();
  const std::vector<ParameterGroup> groups = divide_parameters(network, options.optimizer, options.parameter_groups);
  StepPlan plan = make_step_plan(
      step, policy, std::min(options.batch_size, samples),
      choose_numerics(policy.numerics(), network, options.model_stage, context),
      activation_checkpointing_for(network, options.model_stage, policy.activation_checkpointing, policy.pointer),
      /*declares_cut=*/policy.micro_batch == options.accumulated_micro_batch);
  return StepExecution(step, network, groups, std::move(plan), options.gradient_clip_norm, device, options.average);
}

}  // namespace stages
