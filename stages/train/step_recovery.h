#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <nlohmann/json_fwd.hpp>

#include "runner/shared/stage/run_context.h"
#include "stages/memory/policy.h"
#include "stages/plan/memory_budget.h"
#include "stages/train/step_plan.h"
#include "stages/train/trainer_options.h"

namespace runner {
class RunContext;
struct Recovery;
}  // namespace runner

namespace torch::nn {
class Module;
}

namespace stages {

class StepExecution;

/// Called at the start of each step. If a test has set RETORT_FAULT, fails in the way that it
/// requests.
void fail_if_requested();

/// Decides what the trainer does after a step has run out of memory, following the policy's
/// max_retries and on_oom. A failed step must be undone first:
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
/// The first retry computes the same batch under the same plan, since memory may be free again. The
/// second retry uses the next plan, which then remains in use. Training returns to its first plan
/// if another process had used the memory: the first plan would have fit on the device, less memory
/// was free when it failed, and kGoodSteps steps have succeeded since. A plan that has failed twice
/// is not tried again.
class StepRecovery {
 public:
  static constexpr std::int64_t kGoodSteps = 100;

  struct Options {
    Replan replan;
    /// Returns the plan for a policy; throws runner::StageError if the policy cannot be followed.
    std::function<StepPlan(const MemoryPolicy&)> plan_under;
    std::int64_t units = 0;               ///< largest number of units in a batch
    std::optional<std::int64_t> planned;  ///< bytes that the first plan needs on the device
    std::function<std::int64_t()>
        free_now;  ///< bytes on the device that this process holds or could allocate now
    std::int64_t good_steps = kGoodSteps;
  };
  /// `policy` must be the policy of `execution`. References are borrowed.
  StepRecovery(MemoryPolicy policy, StepExecution& execution, Options options,
               runner::RunContext& context);

  void begin_step() { retries_ = 0; }
  /// Call this after `step`, 1-based, has run out of memory and been undone. Frees memory, reports
  /// the plan for the retry, and switches to it. Returns false if there is no retry.
  bool retries(std::int64_t step);
  void end_step(std::int64_t step);

  /// Advances by `plans` plans because workers were killed, which the kernel does when a process
  /// uses too much memory. Throws runner::StageError, kOutOfMemory, if no plan is left.
  void go_on_after_kills(std::int64_t plans);

  /// The current policy.
  const MemoryPolicy& policy() const { return policy_; }

  /// Returns the current plan, for a checkpoint, and how it differs from the recipe's plan, if it
  /// does.
  nlohmann::ordered_json state() const;
  /// Continues under the plan from a saved state. If the recipe has changed since, or the state is
  /// from another device, keeps the recipe's plan.
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
      failures_;                      // number of times each plan has failed for good
  std::int64_t retries_ = 0;          // for the current step
  std::int64_t good_steps_ = 0;       // since the plan was changed
  bool was_taken_by_others_ = false;  // another process used the memory when the first plan failed
};

/// Returns the trainer's options for recovery: `replan`, or next_plan() if that returns nothing,
/// and plan_under() for the arguments passed to assemble_step(). References are borrowed.
StepRecovery::Options recovery_options(const TrainingStep& step, const torch::nn::Module& network,
                                       std::int64_t samples, const TrainerOptions& options,
                                       const StepExecution& execution, const Replan& replan,
                                       const runner::RunContext& context);

/// Returns how many bytes of `device`'s memory this process holds or could allocate now.
std::int64_t memory_left(c10::Device device);

}  // namespace stages
