#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "runner/shared/stage/plan_context.h"
#include "runner/shared/stage/stage.h"
#include "stages/artifact/dataset.h"
#include "stages/artifact/model.h"
#include "stages/memory/policy.h"
#include "stages/plan/memory_trace.h"
#include "stages/plan/plan.h"
#include "stages/train/measured_training.h"
#include "stages/train/trainer_options.h"
#include "stages/train/training_kind.h"

namespace stages {

/// A training run to plan; everything is borrowed.
struct TrainingToPlan {
  const TrainingStep& step;
  const Model& model;
  const DatasetDescription& data;          ///< the training data
  const DatasetDescription& network_data;  ///< the data that the network is built for
  const DatasetDescription* validation = nullptr;
  const Dataset* kept_data = nullptr;  ///< to count the memory that the data keeps; may be null
  const Dataset* kept_validation = nullptr;  ///< the same for the validation data
  LoaderOptions loader;
  const TrainerOptions& options;
  const MemoryPolicy& policy;
  /// Returns the step under another policy; null if the step is the same under every policy.
  std::function<std::unique_ptr<TrainingStep>(const MemoryPolicy&)> step_under = {};
  /// The model, if dry runs may be shared with other training runs that have the same model and a
  /// step with equal structure(); null: not shared.
  std::shared_ptr<const Model> shared_model = {};
  /// Plans by running real steps if a dry run fails; null: the dry run's error is thrown.
  MeasuredTraining* measured = nullptr;
  std::shared_ptr<const Dataset> samples = {}, validation_samples = {};  ///< for real steps
};

/// Determines what train() would need by running its code on the Meta device: the first steps, with
/// the shorter last batch of an epoch in between, a validation and the end of training. If the
/// policy leaves a choice, the fastest plan that fits is chosen (choose_policy.h); a resumed run
/// keeps its previous plan if that fits. If the plan does not fit, or if the context requests it,
/// equivalent alternatives are examined too. A training run is not traced again if its dry run
/// would equal that of an earlier one in the graph (shared_traces.h). Micro-batches are computed
/// until they prove to be the same; from then on, the trace only repeats their records, which
/// results in the same plan. Throws runner::StageError if train() would reject the options.
PlannedStep plan_training(const TrainingToPlan& training, runner::PlanContext& context,
                          Repeated micro_batches = Repeated::kNoted);

/// Returns a search over the choices that the policy leaves open, within `budget` bytes. It borrows
/// `training` and `context`, and everything that `training` borrows.
PolicySearch policy_search(const TrainingToPlan& training, std::int64_t budget,
                           runner::PlanContext& context, Repeated micro_batches = Repeated::kNoted);

/// Returns the loader options for reading `train` in batches of `batch_size`: those of the data,
/// except that the last batch of an epoch is dropped if it has fewer samples than the step can
/// learn from.
LoaderOptions training_loader(const Dataset& train, const TrainingStep& step,
                              std::int64_t batch_size);

/// Returns the number of optimizer steps for training on `size` samples. If `drops_last`, an epoch
/// drops an incomplete last batch. Throws runner::StageError if an epoch has no batch, or if the
/// schedule does not fit.
std::int64_t training_length(std::int64_t size, bool drops_last, const TrainerOptions& options);

}  // namespace stages
