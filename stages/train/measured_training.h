#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runner/shared/stage/plan_context.h"
#include "stages/memory/policy.h"
#include "stages/plan/choose_policy.h"
#include "stages/plan/measured_work.h"

namespace stages {

struct TrainingToPlan;
class StepExecution;

/// Plans a training run with Python code that needs tensor values, which a dry run does not have.
/// Runs real steps on the device, within the budget, on the first samples, up to four at once. The
/// memory for other micro-batches is extrapolated from the growth of each tensor. Each way to
/// compute a step is measured once; the only ways offered are the recipe's own and recomputing
/// blocks.
class MeasuredTraining {
 public:
  /// Returns the dry run's error that makes measuring necessary; empty if none is known.
  const std::string& why() const { return why_; }
  void set_why(std::string why) { why_ = std::move(why); }

  /// Returns the plan under `policy`. Throws runner::StageError if the policy is invalid or not
  /// offered, if a real step fails, or if running one is not allowed (check_may_measure()).
  TracedPolicy plan(const TrainingToPlan& training, const MemoryPolicy& policy,
                    const Backend& backend, runner::PlanContext& context);
  /// Stops measuring because training begins: from now on, no step is run just for planning.
  void close() { is_closed_ = true; }

 private:
  /// The measurements of one way to compute a step, for all sizes of its parts.
  struct Way {
    MemoryPolicy policy;
    bool is_cut = false;
    MeasuredWork step, validation;
    std::vector<TracedStorage> kept;                     ///< live between steps
    std::int64_t per_unit_of_batch = 0;                  ///< bytes for each unit beyond two parts
    std::int64_t weights = 0, state = 0, offloaded = 0;  ///< bytes of the network and the optimizer
  };
  const Way& measured(const TrainingToPlan& training, const MemoryPolicy& policy, bool is_cut,
                      runner::PlanContext& context);

  std::string why_;
  std::vector<Way> ways_;
  std::exception_ptr failed_;  ///< the error of a real step; all others would fail too
  bool is_closed_ = false;
};

}  // namespace stages
