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

/// A network's forward pass over a dataset, to be planned; it has no autograd graph. `data`,
/// `dataset` and `policy` must outlive this object.
struct ForwardToPlan {
  std::string name;  ///< name of the stage that creates the network
  const DatasetDescription& data;
  const Dataset* dataset = nullptr;  ///< to count the memory that it keeps; may be null
  LoaderOptions loader;
  std::int64_t batch_size;
  const MemoryPolicy& policy;
  std::function<std::shared_ptr<torch::nn::Module>()>
      outline;               ///< creates the network on the Meta device
  std::string batch_option;  ///< the option that sets `batch_size`, "evaluate.batch_size"
  /// Computes the output for the rows of a batch.
  std::function<at::Tensor(torch::nn::Module& network, const NamedTensors& inputs)> forward;
  /// On a CPU, adds to a plan the memory for computations on the results; may be empty.
  std::function<void(PlannedForward&)> besides = {};
  /// Creates the network with actual values. If user code makes the dry run fail, this network is
  /// run on batches of `samples` instead. Null: the dry run's error is thrown.
  std::function<std::shared_ptr<torch::nn::Module>()> build = {};
  std::shared_ptr<const Dataset> samples = {};
};

struct PlannedForward {
  runner::MemoryPlan plan;
  at::Tensor output;  ///< for one batch, on the Meta device: (min(batch_size, size), …)
  std::int64_t batch_size =
      0;  ///< the size to use: smaller than requested if necessary and if the policy allows it
};

/// Plans the memory of forward passes on the context's device, by running two batches on the Meta
/// device. If `keeps_results`, the results of all batches are kept until the end; they are counted
/// twice: batch by batch, and concatenated. If the plan does not fit, it uses the largest batch
/// that does, which has the same result in exact arithmetic. If the policy does not allow that, the
/// batch is listed as an alternative.
PlannedForward plan_forward(const ForwardToPlan& forward, bool keeps_results,
                            runner::PlanContext& context);

// The parts of a plan other than its trace: the traced batch, untraced memory, and the budget.

/// Returns `units` samples as described by `data`, on the Meta device: shapes and types, but no
/// values. Their indices are 0, 1, 2 …
Batch meta_batch(const DatasetDescription& data, std::int64_t units);

/// Returns the device that a plan is for: this machine's, or the GPU specified by the plan's
/// caller.
Backend planned_backend(const runner::PlanContext& context);

/// Adds a term to a `plan` from summarize(), in addition to the trace. After summarize(), only
/// add_term() and add_held_memory() change the needed bytes.
void add_term(runner::MemoryPlan& plan, runner::NamedBytes term);

/// Adds to `plan` the memory that a Loader with batches of `units` keeps in addition to the current
/// batch, if the plan is for a CPU and the loader has workers.
void add_read_ahead(runner::MemoryPlan& plan, at::DeviceType device, const DatasetDescription& data,
                    const LoaderOptions& loader, std::int64_t units);

/// Adds to `plan` the memory held while a stage runs: by earlier nodes and, if the plan is for a
/// CPU, by `datasets`, any of which may be null.
void add_held_memory(runner::MemoryPlan& plan, const runner::PlanContext& context,
                     std::initializer_list<const Dataset*> datasets);

/// Sets the budget that `plan` is compared with: the memory_budget() of the device's memory, as
/// measured or as set by the plan's caller.
void set_budget(runner::MemoryPlan& plan, const MemoryPolicy& policy,
                const runner::PlanContext& context);

/// The context of a dry run within a run. Its output is not shown.
class UnseenPlan final : public runner::PlanContext {
 public:
  explicit UnseenPlan(runner::NodeFacts facts, runner::DryRunOptions dry = {},
                      std::vector<runner::NamedBytes> held = {})
      : PlanContext(std::move(facts), std::move(dry), std::move(held)) {}

  void metric(std::string_view, double, std::int64_t) override {}
  void progress(const runner::Progress&) override {}
  void say(std::string_view) override {}
  bool canceled() const override { return false; }
  void plan(runner::MemoryPlan) override {}
  void certify(runner::Certificate) override {}
};

}  // namespace stages
