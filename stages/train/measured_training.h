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

/// Plans a training whose Python code needs values, which a dry run does not have: real steps are
/// run on the device, within the budget, on the first samples, up to four at once. What other
/// micro-batches need follows from how each tensor grew. Each way of computing a step is measured
/// once; ways that the recipe does not write, other than recomputed blocks, are not offered.
class MeasuredTraining {
 public:
  /// Why it is measured, as the dry run said; empty: it need not be, as far as is known.
  const std::string& why() const { return why_; }
  void set_why(std::string why) { why_ = std::move(why); }

  /// The plan under `policy`. Throws runner::StageError if the policy is invalid or not offered, if
  /// a real step fails, or if none may be run (check_may_measure()).
  TracedPolicy plan(const TrainingToPlan& training, const MemoryPolicy& policy,
                    const Backend& backend, runner::PlanContext& context);
  /// From now on no step is run for a plan: the training itself begins.
  void close() { is_closed_ = true; }

 private:
  /// What was measured of one way of computing a step, whatever the size of its parts.
  struct Way {
    MemoryPolicy policy;
    bool is_cut = false;
    MeasuredWork step, validation;
    std::vector<TracedStorage> kept;     ///< between steps
    std::int64_t per_unit_of_batch = 0;  ///< bytes for each unit of a batch beyond two parts
    std::int64_t weights = 0, state = 0, offloaded = 0;  ///< bytes: of the network, the optimizer
  };
  const Way& measured(const TrainingToPlan& training, const MemoryPolicy& policy, bool is_cut,
                      runner::PlanContext& context);

  std::string why_;
  std::vector<Way> ways_;
  std::exception_ptr failed_;  ///< how a real step failed, as every other would
  bool is_closed_ = false;
};

}  // namespace stages
