#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

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

/// A training to be planned; everything is borrowed.
struct TrainingToPlan {
  const TrainingStep& step;
  const Model& model;
  const DatasetDescription& data;          ///< the training data
  const DatasetDescription& network_data;  ///< what the network is made for
  const DatasetDescription* validation = nullptr;
  const Dataset* kept_data =
      nullptr;  ///< the datasets themselves, for the memory that they keep; null: none
  const Dataset* kept_validation = nullptr;  ///< the same for the validation data
  LoaderOptions loader;
  const TrainerOptions& options;
  const MemoryPolicy& policy;
  /// Returns the step under another policy, if the policy affects it; null: `step`.
  std::function<std::unique_ptr<TrainingStep>(const MemoryPolicy&)> step_under = {};
  /// `model`, if dry runs may be shared with other trainings of the same model whose step has the
  /// same structure(); null: not shared.
  std::shared_ptr<const Model> shared_model = {};
  /// Plans it by real steps if a dry run fails; null: the dry run's error stands.
  MeasuredTraining* measured = nullptr;
  std::shared_ptr<const Dataset> samples = {}, validation_samples = {};  ///< for such steps
};

/// Determines what train() would need. It runs the code of train() on the Meta device: the first
/// steps, with the shorter batch between them that an epoch may end with, a validation and the end
/// of a training. If the policy leaves a choice, the fastest plan that fits is chosen
/// (choose_policy.h), or, if the run has started before, the plan that it used then, if that fits.
/// If the plan does not fit, or the context requests them, equivalent alternatives are examined
/// too. A training that is traced like an earlier one in the graph (SharedTraces) is not traced
/// again. Micro-batches are computed until they are shown to be all alike, and from then on only
/// noted; computing them all gives the same plan. Throws runner::StageError if train() would reject
/// the options.
PlannedStep plan_training(const TrainingToPlan& training, runner::PlanContext& context,
                          Repeated micro_batches = Repeated::kNoted);

/// The search by which plan_training() makes the choices that the policy leaves open, for `budget`
/// bytes. It borrows both, and what the training borrows.
PolicySearch policy_search(const TrainingToPlan& training, std::int64_t budget,
                           runner::PlanContext& context, Repeated micro_batches = Repeated::kNoted);

/// The loader options with which a training reads `train` in batches of `batch_size`: those of the
/// data, except that the last batch of an epoch is dropped if it has fewer samples than the step
/// can learn from.
LoaderOptions training_loader(const Dataset& train, const TrainingStep& step,
                              std::int64_t batch_size);

/// The number of optimizer steps of a whole training on `size` samples. `drops_last`: an epoch
/// drops an incomplete last batch. Throws runner::StageError if an epoch has no batch, or if the
/// schedule does not fit.
std::int64_t training_length(std::int64_t size, bool drops_last, const TrainerOptions& options);

/// Everything that affects the dry run of a training. The seed and the class names have no effect;
/// the number of samples matters through the batch sizes alone.
struct TracedAs {
  std::shared_ptr<const Model> model;  ///< the identical object
  std::string step;                    ///< as returned by TrainingStep::structure()
  TrainerOptions options;
  MemoryPolicy policy;
  Backend backend;
  Repeated micro_batches = Repeated::kNoted;
  bool resumes = false;
  DatasetDescription data, network_data;
  std::vector<std::int64_t> batches;  ///< the sizes of the batches that occur
  /// The validation data and batch size; without data there is no validation.
  std::optional<DatasetDescription> validation;
  std::int64_t validated = 0;
};

/// Whether steps under both policies compute and need the same.
bool is_computed_alike(const MemoryPolicy& one, const MemoryPolicy& other);

/// Would both dry runs show the same, byte for byte?
bool are_traced_alike(const TracedAs& one, const TracedAs& other);

/// Caches the dry runs of a graph's trainings. Trainings of one network, for example one for each
/// pair of many classes, mostly have the same dry run.
class SharedTraces {
 public:
  /// Returns what `trace` returns; calls it only if no training that is traced alike was requested
  /// before. If that one was refused, this one is refused too. Throws what `trace` throws.
  TracedPolicy of(const TracedAs& training, const std::function<TracedPolicy()>& trace);

  /// The number of traced trainings.
  std::size_t count() const { return known_.size(); }

 private:
  struct Known {
    TracedAs training;
    std::variant<TracedPolicy, runner::StageError> result;
  };
  std::vector<Known> known_;
};

}  // namespace stages
