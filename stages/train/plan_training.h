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
#include "stages/plan/choose_policy.h"
#include "stages/plan/memory_trace.h"
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
  const Dataset* kept_data =
      nullptr;  ///< the datasets themselves, for what they keep in memory; null: nothing
  const Dataset* kept_validation = nullptr;  ///< likewise
  LoaderOptions loader;
  const TrainerOptions& options;
  const MemoryPolicy& policy;
  /// The step as another policy has it, where that makes a difference; null: `step`.
  std::function<std::unique_ptr<TrainingStep>(const MemoryPolicy&)> step_under = {};
  /// `model`, if dry runs may be shared with other trainings of it whose step has the same
  /// structure(); null: not.
  std::shared_ptr<const Model> shared_model = {};
};

struct PlannedTraining {
  MemoryPolicy policy;  ///< that the training is to follow: where the recipe leaves a choice, what
                        ///< was chosen
  runner::MemoryPlan plan;
};

/// Shows what train() would need: makes its first steps, with the shorter batch between them that
/// an epoch may end with, a validation and the end of a training on the Meta device, by the code
/// that train() runs. Where the policy leaves a choice, the quickest way that fits is taken
/// (choose_policy.h), or where the run has started before, the way that it took then, if that fits.
/// Where the plan does not fit, or the context asks for them, other ways of computing the same are
/// looked at too. What a training of the graph has shown before that is traced alike
/// (shared_traces.h) is not traced again. Micro-batches that are all alike are computed until that
/// is shown, and noted from then on; to compute them all gives the same plan. Throws
/// runner::StageError where train() would refuse the options.
PlannedTraining plan_training(const TrainingToPlan& training, runner::PlanContext& context,
                              Repeated micro_batches = Repeated::kNoted);

/// The search by which plan_training() chooses where the policy leaves a choice, for `budget`
/// bytes. It borrows both, and what the training borrows.
PolicySearch policy_search(const TrainingToPlan& training, std::int64_t budget,
                           runner::PlanContext& context, Repeated micro_batches = Repeated::kNoted);

/// How a training reads `train` in batches of `batch_size`: as the data says it, but for a last
/// batch of an epoch that has fewer samples than the step can learn from, which is left out.
LoaderOptions training_loader(const Dataset& train, const TrainingStep& step,
                              std::int64_t batch_size);

/// The optimizer steps of a whole training on `size` samples, of which an epoch leaves out an
/// incomplete last batch where `drops_last`. Throws runner::StageError where an epoch has no batch,
/// and where the schedule does not fit.
std::int64_t training_length(std::int64_t size, bool drops_last, const TrainerOptions& options);

/// All that the dry run of a training depends on. What is not here, makes no difference to it: the
/// seed, the names of the classes, and of how many samples there are what the sizes of the batches
/// do not say.
struct TracedAs {
  std::shared_ptr<const Model> model;  ///< the very same
  std::string step;                    ///< as TrainingStep::structure() says
  TrainerOptions options;
  MemoryPolicy policy;
  Backend backend;
  Repeated micro_batches = Repeated::kNoted;
  bool resumes = false;
  DatasetDescription data, network_data;
  std::vector<std::int64_t> batches;  ///< the sizes of those that are gone through
  /// The data for validation, and the size of the batch; without data nothing is validated.
  std::optional<DatasetDescription> validation;
  std::int64_t validated = 0;
};

/// Would the dry run of both show the same, byte for byte?
bool are_traced_alike(const TracedAs& one, const TracedAs& other);

/// The dry runs of a graph's trainings. Those of one network for each pair of many classes are
/// mostly the same one.
class SharedTraces {
 public:
  /// What `trace` gives, which is called where no training that is traced alike was asked for
  /// before; where that one was refused, this one is too. Throws what `trace` throws.
  TracedPolicy of(const TracedAs& training, const std::function<TracedPolicy()>& trace);

  /// How many were traced.
  std::size_t count() const { return known_.size(); }

 private:
  struct Known {
    TracedAs training;
    std::variant<TracedPolicy, runner::StageError> result;
  };
  std::vector<Known> known_;
};

}  // namespace stages
