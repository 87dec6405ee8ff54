#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <c10/core/DeviceType.h>

#include "runner/shared/stage/plan_context.h"
#include "stages/artifact/dataset.h"
#include "stages/memory/policy.h"
#include "stages/numerics/numerics.h"
#include "stages/tensor/batch.h"

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
  std::string batch_option;  ///< that `batch_size` is from, "evaluate.batch_size"
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

/// Shows what that needs on the context's device: two batches on the Meta device. Where the results
/// of all batches are kept until the end, `keeps_results`, they are counted in, batch by batch and
/// put together. Where it does not fit, the largest batch that does is taken, which gives the same
/// in exact arithmetic, or named where the policy does not allow that.
PlannedForward plan_forward(const ForwardToPlan& forward, bool keeps_results,
                            runner::PlanContext& context);

// What a plan is made of beside its trace: the batch that is traced, the memory that nobody traces,
// and the budget.

/// `units` samples as `data` describes them, on the Meta device: shapes and types without values.
/// Their indices are 0, 1, 2 …
Batch meta_batch(const DatasetDescription& data, std::int64_t units);

/// Adds to `plan` what stands beside the trace that summarize() has made it of. Only this and
/// add_held_memory() change its prediction from then on.
void add_term(runner::MemoryPlan& plan, runner::NamedBytes term);

/// Adds to `plan` what a Loader of batches of `units` holds besides the batch that is computed,
/// where that is the memory planned for: on the CPU, with workers.
void add_read_ahead(runner::MemoryPlan& plan, at::DeviceType device, const DatasetDescription& data,
                    const LoaderOptions& loader, std::int64_t units);

/// Adds to `plan` what is in memory as long as a stage works: what its inputs among `datasets`
/// hold, of which any may be null, where that is the memory planned for, on the CPU; and what
/// earlier nodes hold.
void add_held_memory(runner::MemoryPlan& plan, const runner::PlanContext& context,
                     std::initializer_list<const Dataset*> datasets);

/// Says in `plan` what it is held against: the memory_budget() of what the device has, or whoever
/// asks for the plan says it has.
void set_budget(runner::MemoryPlan& plan, const MemoryPolicy& policy,
                const runner::PlanContext& context);

/// A dry run beside the work of a run, that nobody is shown.
class UnseenPlan final : public runner::PlanContext {
 public:
  explicit UnseenPlan(runner::NodeFacts facts, runner::DryRunOptions dry = {},
                      std::vector<runner::NamedBytes> held = {})
      : PlanContext(std::move(facts), std::move(dry), std::move(held)) {}

  void metric(std::string_view, double, std::int64_t) override {}
  void progress(const runner::Progress&) override {}
  void say(std::string_view) override {}
  bool cancelled() const override { return false; }
  void plan(runner::MemoryPlan) override {}
  void certify(runner::Certificate) override {}
};

}  // namespace stages
