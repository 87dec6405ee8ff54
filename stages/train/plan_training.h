#pragma once

#include <functional>
#include <memory>
#include <string>

#include "runner/shared/stage/plan_context.h"
#include "stages/artifact/model.h"
#include "stages/memory/policy.h"
#include "stages/plan/memory_trace.h"
#include "stages/plan/choose_policy.h"
#include "stages/train/trainer_options.h"
#include "stages/train/training_kind.h"

namespace stages {

/// A training that is to be planned; all of it is borrowed.
struct TrainingToPlan {
  const TrainingStep& step;
  const Model& model;
  const DatasetDescription& data;          ///< that it learns from
  const DatasetDescription& network_data;  ///< that the network is made for
  const DatasetDescription* validation = nullptr;
  const Dataset* kept_data = nullptr;        ///< the datasets themselves, for what they keep in memory; null: nothing
  const Dataset* kept_validation = nullptr;  ///< likewise
  LoaderOptions loader;
  const TrainerOptions& options;
  const MemoryPolicy& policy;
  /// The step as another policy has it, where that makes a difference; null: `step`.
  std::function<std::unique_ptr<TrainingStep>(const MemoryPolicy&)> step_under = {};
  /// `model`, if dry runs may be shared with other trainings of it whose step has the same structure(); null: not.
  std::shared_ptr<const Model> shared_model = {};
};

struct PlannedTraining {
  MemoryPolicy policy;  ///< that the training is to follow: where the recipe leaves a choice, what was chosen
  runner::MemoryPlan plan;
};

/// Shows what train() would need: makes its first steps, with the shorter batch between them that an epoch may end
/// with, a validation and the end of a training on the Meta device, by the code that train() runs. Where the policy
/// leaves a choice, the quickest way that fits is taken (choose_policy.h), or where the run has started before, the way
/// that it took then, if that fits. Where the plan does not fit, or the context asks for them, other ways of computing
/// the same are looked at too. What a training of the graph has shown before that is traced alike (shared_traces.h) is
/// not traced again. Micro-batches that are all alike are computed until that is shown, and noted from then
/// on; to compute them all gives the same plan. Throws runner::StageError where train() would refuse the options.
PlannedTraining plan_training(const TrainingToPlan& training, runner::PlanContext& context,
                              Repeated micro_batches = Repeated::kNoted);

/// The search by which plan_training() chooses where the policy leaves a choice, for `budget` bytes. It borrows both,
/// and what the training borrows.
PolicySearch policy_search(const TrainingToPlan& training, std::int64_t budget, runner::PlanContext& context,
                           Repeated micro_batches = Repeated::kNoted);

}  // namespace stages
