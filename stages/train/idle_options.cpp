#include "stages/train/idle_options.h"

#include "stages/train/schedule.h"

namespace stages {

std::vector<std::string> idle_options(const TrainerOptions& options, const MemoryPolicy& policy,
                                      const StepExecution& execution, std::int64_t planned_steps) {
  std::vector<std::string> lines;
  const Optimizer& optimizer = execution.optimizer();
  const StepPlan& plan = execution.plan();
  std::string unreached =
      unreached_rate(options.schedule, optimizer.learning_rates().front(), planned_steps);
  if (!unreached.empty()) lines.push_back(std::move(unreached));
  if (state_bits(options.optimizer) == 8 && !optimizer.quantizes()) {
    lines.push_back("state_bits: 8 has no effect: no trained weight has " +
                    std::to_string(kSmallestQuantized) + " elements or more");
  }
  if (policy.two_pass && !plan.two_pass)
    lines.emplace_back("two_pass has no effect: micro_batch does not split the batch");
  if (policy.sharding != plan.sharding)
    lines.push_back("shard: " + std::string(name(policy.sharding)) +
                    " has no effect: there is only one rank, which keeps everything");
  if (policy.offloads_optimizer && !plan.offloads_optimizer)
    lines.emplace_back(
        "offload: optimizer has no effect on the CPU: the optimizer state is in host memory "
        "anyway");
  return lines;
}

}  // namespace stages
