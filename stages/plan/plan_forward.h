#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "runner/shared/stage/plan_context.h"
#include "stages/artifact/dataset.h"
#include "stages/memory/policy.h"
#include "stages/numerics/numerics.h"

namespace stages {

struct PlannedForward;

/// A network that is run over a dataset without a graph; all but its name is borrowed.
struct ForwardToPlan {
  std::string name;  ///< of the stage that makes the network
  const DatasetDescription& data;
  const Dataset* dataset = nullptr;  ///< itself, for what it keeps in memory; null: nothing
  LoaderOptions loader;
  std::int64_t batch_size;
  const MemoryPolicy& policy;
  std::function<std::shared_ptr<torch::nn::Module>()> outline;  ///< the network on the Meta device
  std::string batch_option;                                     ///< that `batch_size` is from, "evaluate.batch_size"
  /// What it makes of the rows of a batch.
  std::function<at::Tensor(torch::nn::Module& network, const NamedTensors& inputs)> forward;
  /// Adds to a plan, on a CPU, what is made of the results; may be empty.
  std::function<void(PlannedForward&)> besides = {};
};

struct PlannedForward {
  runner::MemoryPlan plan;
  at::Tensor output;  ///< of one batch, on the Meta device: (min(batch_size, size), …)
  std::int64_t batch_size =
      0;  ///< that is to be run: smaller than asked for where the policy allows that and it must be
};

/// Shows what that needs on the context's device: two batches on the Meta device. Where the results of all batches are
/// kept until the end, `keeps_results`, they are counted in, batch by batch and put together. Where it does not fit,
/// the largest batch that does is taken, which gives the same in exact arithmetic, or named where the policy does not
/// allow that.
PlannedForward plan_forward(const ForwardToPlan& forward, bool keeps_results, runner::PlanContext& context);

}  // namespace stages
