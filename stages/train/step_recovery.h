#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <nlohmann/json_fwd.hpp>

#include "runner/shared/stage/run_context.h"
#include "stages/memory/policy.h"
#include "stages/plan/memory_budget.h"
#include "stages/train/step_plan.h"

namespace runner {
class RunContext;
struct Recovery;
}  // namespace runner

namespace stages {

class StepExecution;

/// What the trainer does once a step has run out of memory, as the policy's max_retries and on_oom
/// say. The step has been undone by then:
///
///   recovery.begin_step();
///   while (!computed) {
///     try { computed = execution.compute(batch, key); }
///     catch (const std::exception& error) { before.restore(); if (!recovery.retries(step)) throw;
///     }
///   }
///   execution.commit(*computed);
///   recovery.end_step(step);
///
/// The same batch is computed again under the same plan first, since what took the memory may be
/// gone; then under the next one. The plan stays then. It goes back to the one that the training
/// began with where memory was what somebody else took: that plan would have fitted the device,
/// less was free when it failed, and for kGoodSteps steps since then all has gone well. A plan that
/// has failed twice is not tried again.
class StepRecovery {
 public:
  static constexpr std::int64_t kGoodSteps = 100;

  struct Options {
    Replan replan;
    /// The plan that a policy asks for; throws runner::StageError for one that cannot be obeyed.
    std::function<StepPlan(const MemoryPolicy&)> plan_under;
    std::int64_t units = 0;               ///< of a batch, at most
    std::optional<std::int64_t> planned;  ///< bytes of the device that the first plan needs
    std::function<std::int64_t()>
        free_now;  ///< bytes of the device that this process has or could get
    std::int64_t good_steps = kGoodSteps;
  };
  /// `policy` is the one that `execution` follows. References are borrowed.
  StepRecovery(MemoryPolicy policy, StepExecution& execution, Options options,
               runner::RunContext& context);

  void begin_step() { retries_ = 0; }
  /// After `step`, 1-based, ran out of memory and was undone: makes room, and says under which plan
  /// it is computed again, which is then in force. False where it is not.
  bool retries(std::int64_t step);
  void end_step(std::int64_t step);

  /// Takes up the plan after the one in force, so many times: workers were killed, as the kernel
  /// kills what takes too much memory. Throws runner::StageError, kOutOfMemory, where there is
  /// none.
  void go_on_after_kills(std::int64_t plans);

  /// The policy in force.
  const MemoryPolicy& policy() const { return policy_; }

  /// The plan in force, for a checkpoint, and where it is not the one that the recipe asks for how
  /// it differs.
  nlohmann::ordered_json state() const;
  /// Continues under the plan of such a state; under its own where the recipe asks for another than
  /// it did then, or the state is that of another device.
  void restore(const nlohmann::json& state);

 private:
  std::optional<std::pair<MemoryPolicy, StepPlan>> next(std::int64_t bytes) const;
  void take(MemoryPolicy policy, StepPlan plan);
  std::int64_t& failures(const StepPlan& plan);
  void report(runner::Recovery incident, const StepPlan& from, const std::string& line);
  std::string way(const StepPlan& plan) const;

  MemoryPolicy policy_;
  StepExecution& execution_;
  const Options options_;
  runner::RunContext& context_;
  const MemoryPolicy first_policy_;
  const StepPlan first_;
  std::vector<std::pair<StepPlan, std::int64_t>>
      failures_;                      // how often each plan has failed for good
  std::int64_t retries_ = 0;          // of the step
  std::int64_t good_steps_ = 0;       // since the plan was changed
  bool was_taken_by_others_ = false;  // the memory, when the first plan failed
};

/// Bytes of `device` that this process has or could get now.
std::int64_t memory_left(c10::Device device);

/// Looks at every tensor of a training as it goes. A run that has one waits for the device at every
/// step.
class StepObserver : public runner::Observer {
 public:
  /// Where in a training a tensor is looked at.
  struct Place {
    std::string_view node;
    std::int64_t step;  ///< 1-based; 0: before the first
    std::string_view
        phase;  ///< "start", "batch", "loss", "gradient" or "weights", in this order within a step
  };

  /// How many steps a training is to make, if it has as many in an epoch.
  virtual std::int64_t steps() const = 0;
  /// `tensor` may be on any device, and is changed once this returns.
  virtual void see(const Place& place, std::string_view name, const at::Tensor& tensor) = 0;
};

}  // namespace stages
