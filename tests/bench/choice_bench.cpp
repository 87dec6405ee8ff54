// Steps of a tower, actually computed in many ways, compared with the planner's choices under
// several budgets.

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <torch/nn/module.h>
#include <torch/types.h>

#include "stages/machine/cpu_pool.h"
#include "stages/machine/threads.h"
#include "stages/plan/step_profile.h"
#include "stages/train/step_execution.h"
#include "tests/bench/blocks.h"
#include "tests/support/planning_context.h"
#include "tests/support/tower_planning.h"

namespace {

using namespace stages;

/// A way to compute a step: its plan, and what is needed to run it.
class Way {
 public:
  Way(const MemoryPolicy& policy, const runner::MemoryPlan& plan, TowerPlanning& training,
      std::int64_t batch)
      : policy_(policy),
        network_(training.model.build(training.data.describe(), 1)),
        execution_(assemble_step(training.step, *network_, batch, training.options, policy_,
                                 at::kCPU, running_)),
        batch_({{"image", torch::randn({batch, 3, 64, 64})},
                {"label", torch::zeros({batch}, at::kLong)}},
               batch) {
    const Backend backend{.device = at::kCPU, .threads = at::get_num_threads()};
    const auto& recomputed = plan.step.at("activation_checkpointing");
    said_ = {
        {"name", "parts of " + plan.step.at("micro_batch").dump() + ", recomputed " +
                     (recomputed.is_string() ? recomputed.get<std::string>()
                                             : std::to_string(recomputed.size()))},
        {"step", plan.step},
        {"bytes", plan.needed},
        {"predicted_seconds", predicted_seconds({plan.flops, plan.traffic,
                                                 static_cast<double>(plan.operations), plan.moved},
                                                backend)}};
  }

  /// "name", "step" as in the plan, "bytes", "predicted_seconds".
  const nlohmann::json& said() const { return said_; }
  void step() { execution_.commit(execution_.compute(batch_, {7, ++number_})); }

 private:
  const MemoryPolicy policy_;
  PlanningContext running_;
  const std::shared_ptr<torch::nn::Module> network_;
  StepExecution execution_;
  const Batch batch_;
  nlohmann::json said_;
  std::int64_t number_ = 0;
};

}  // namespace

/// One argument, JSON: {"threads", "batch", "layers"}. The first answer is {"ways": [{"name",
/// "bytes", "predicted_seconds"}], "chosen": [{"budget", "way"}]}; a block runs the given number of
/// steps of each way, and answers {"seconds": [per step]}.
int main(int, char** arguments) {
  const auto options = nlohmann::json::parse(arguments[1]);
  use_threads(options.at("threads").get<int>());
  const auto batch = options.at("batch").get<std::int64_t>(),
             layers = options.at("layers").get<std::int64_t>();
  TowerPlanning training(layers, NoiseImages(batch, 64));
  training.options.batch_size = batch;
  training.context.asked.budget = {"plenty", std::int64_t{1} << 40};
  std::vector<std::unique_ptr<Way>> ways;
  // Each way runs only once, even if it is chosen several times.
  const auto add = [&](const PlannedStep& planned) {
    for (std::size_t i = 0; i < ways.size(); ++i)
      if (ways[i]->said().at("step") == nlohmann::json(planned.plan.step)) return i;
    ways.push_back(std::make_unique<Way>(planned.policy, planned.plan, training, batch));
    return ways.size() - 1;
  };
  std::int64_t least = 0, most = 0;
  for (std::int64_t size = batch; size >= 1; size /= 2) {
    for (std::int64_t recomputed = 0; recomputed <= layers;
         recomputed += std::max<std::int64_t>(layers / 3, 1)) {
      training.policy.micro_batch = size;
      training.policy.activation_checkpointing = {};
      for (std::int64_t layer = 0; layer < recomputed; ++layer)
        training.policy.activation_checkpointing.modules.push_back(
            "model.vision_model.encoder.layers." + std::to_string(layer));
      const PlannedStep planned = training.planned();
      least = least == 0 ? planned.plan.needed : std::min(least, planned.plan.needed);
      most = std::max(most, planned.plan.needed);
      add(planned);
    }
  }
  training.policy = MemoryPolicy();
  training.policy.pointer = "/memory";
  training.policy.allow = Allow::kExact;
  training.policy.checkpointing_is_open = true;
  nlohmann::json chosen = nlohmann::json::array();
  for (int part = 0; part <= 8; ++part) {
    const std::int64_t budget = least + (most - least) * part / 8;
    training.context.asked.budget = {"a share", budget};
    chosen.push_back({{"budget", budget}, {"way", add(training.planned())}});
  }
  nlohmann::json said = nlohmann::json::array();
  for (const auto& way : ways) said.push_back(way->said());
  report({{"ways", said}, {"chosen", chosen}});
  while (const std::optional<int> block = next_block()) {
    nlohmann::json seconds = nlohmann::json::array();
    for (const auto& way : ways) {
      const double all = seconds_of([&] {
        for (int i = 0; i < *block; ++i) way->step();
      });
      seconds.push_back(all / *block);
    }
    report({{"seconds", seconds}});
  }
}
