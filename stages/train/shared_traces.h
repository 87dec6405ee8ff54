#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "runner/shared/stage/stage.h"
#include "stages/artifact/dataset.h"
#include "stages/artifact/model.h"
#include "stages/memory/policy.h"
#include "stages/plan/memory_trace.h"
#include "stages/plan/choose_policy.h"
#include "stages/train/trainer_options.h"

namespace stages {

/// All that the dry run of a training depends on. What is not here, makes no difference to it: the seed, the names of
/// the classes, and of how many samples there are what the sizes of the batches do not say.
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

/// The dry runs of a graph's trainings. Those of one network for each pair of many classes are mostly the same one.
class SharedTraces {
 public:
  /// What `trace` gives, which is called where no training that is traced alike was asked for before; where that one
  /// was refused, this one is too. Throws what `trace` throws.
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
