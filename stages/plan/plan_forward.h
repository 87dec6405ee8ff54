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
#include "stages/plan/memory_trace.h"
#include "stages/tensor/batch.h"

namespace stages {

struct PlannedForward;

/// A network that runs over a dataset without an autograd graph. Everything but its name is
/// borrowed.
struct ForwardToPlan {
  std::string name;  ///< of the stage that makes the network
  const DatasetDescription& data;
  const Dataset* dataset = nullptr;  ///< the dataset, for what it keeps in memory; null: nothing
  LoaderOptions loader;
  std::int64_t batch_size;
  const MemoryPolicy& policy;
  std::function<std::shared_ptr<torch::nn::Module>()> outline;  ///< the network on the Meta device
  std::string batch_option;  ///< the option that sets `batch_size`, "evaluate.batch_size"
  /// Computes the output for the rows of a batch.
  std::function<at::Tensor(torch::nn::Module& network, const NamedTensors& inputs)> forward;
  /// Adds to a plan, on a CPU, the memory of what is made from the results; may be empty.
  std::function<void(PlannedForward&)> besides = {};
  /// The network with values, and samples for it: where a dry run fails at code of the user, real
  /// batches are run. Null: the dry run's error stands.
  std::function<std::shared_ptr<torch::nn::Module>()> build = {};
  std::shared_ptr<const Dataset> samples = {};
};

struct PlannedForward {
  runner::MemoryPlan plan;
  at::Tensor output;  ///< of one batch, on the Meta device: (min(batch_size, size), …)
  std::int64_t batch_size =
      0;  ///< to run: smaller than requested if it must be and the policy allows it
};

/// Plans the memory of a forward on the context's device, by running two batches on the Meta
/// device. If `keeps_results`, the results of all batches are kept until the end; they are counted
/// batch by batch and once concatenated. If it does not fit, the largest batch that does is used,
/// which gives the same result in exact arithmetic, or only reported if the policy does not allow
/// it.
PlannedForward plan_forward(const ForwardToPlan& forward, bool keeps_results,
                            runner::PlanContext& context);

// The parts of a plan other than its trace: the batch that is traced, the memory that is not
// traced, and the budget.

/// `units` samples as `data` describes them, on the Meta device: shapes and types without values.
/// Their indices are 0, 1, 2 …
Batch meta_batch(const DatasetDescription& data, std::int64_t units);

/// The device that a plan is for: this machine's, or the GPU that the caller of the plan names.
Backend planned_backend(const runner::PlanContext& context);

/// Adds a term to a `plan` made by summarize(), in addition to the trace. From then on only this
/// and add_held_memory() change its prediction.
void add_term(runner::MemoryPlan& plan, runner::NamedBytes term);

/// Adds to `plan` what a Loader of batches of `units` holds in addition to the current batch, if
/// the plan is for that memory: on the CPU, with workers.
void add_read_ahead(runner::MemoryPlan& plan, at::DeviceType device, const DatasetDescription& data,
                    const LoaderOptions& loader, std::int64_t units);

/// Adds to `plan` what stays in memory while a stage works: what its inputs among `datasets`, any
/// of which may be null, hold if the plan is for that memory, on the CPU; and what earlier nodes
/// hold.
void add_held_memory(runner::MemoryPlan& plan, const runner::PlanContext& context,
                     std::initializer_list<const Dataset*> datasets);

/// Sets the budget that `plan` is compared with: the memory_budget() of the device's memory, as
/// measured or as given by the caller of the plan.
void set_budget(runner::MemoryPlan& plan, const MemoryPolicy& policy,
                const runner::PlanContext& context);

/// A dry run during a run, whose output is not shown.
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
