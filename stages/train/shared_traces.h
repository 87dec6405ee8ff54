#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "runner/shared/error/stage_error.h"
#include "stages/artifact/dataset.h"
#include "stages/artifact/model.h"
#include "stages/memory/policy.h"
#include "stages/plan/choose_policy.h"
#include "stages/plan/memory_trace.h"
#include "stages/plan/repetition.h"
#include "stages/train/trainer_options.h"

namespace stages {

/// Everything that affects the dry run of a training run. The seed and the class names have no
/// effect; the number of samples matters only through the batch sizes.
struct TracedAs {
  std::shared_ptr<const Model> model;  ///< must be the same object
  std::string step;                    ///< as returned by TrainingStep::structure()
  TrainerOptions options;
  MemoryPolicy policy;
  Backend backend;
  Repeated micro_batches = Repeated::kNoted;
  bool resumes = false;
  DatasetDescription data, network_data;
  std::vector<std::int64_t> batches;  ///< all batch sizes that occur
  /// The validation data and batch size; nullopt if there is no validation.
  std::optional<DatasetDescription> validation;
  std::int64_t validated = 0;
};

/// True if steps perform the same computation and need the same memory under both policies.
bool is_computed_alike(const MemoryPolicy& one, const MemoryPolicy& other);

/// True if both dry runs would have the same result, byte for byte.
bool are_traced_alike(const TracedAs& one, const TracedAs& other);

/// Caches the dry runs of a graph. Training runs of the same network, such as one for each class
/// pair, usually have the same dry run.
class SharedTraces {
 public:
  /// Returns the result of `trace`, or the cached result of an earlier training run that would have
  /// the same dry run. If that one was refused, this one is refused too. Throws what `trace`
  /// throws.
  TracedPolicy of(const TracedAs& training, const std::function<TracedPolicy()>& trace);

  /// The number of traced training runs.
  std::size_t count() const { return known_.size(); }

 private:
  struct Known {
    TracedAs training;
    std::variant<TracedPolicy, runner::StageError> result;
  };
  std::vector<Known> known_;
};

/// What the dry runs of one search for a policy share. They differ only in their policies.
class SearchTraces {
 public:
  /// Returns the parts of batches that dry runs under `policy` may repeat: those of any policy with
  /// the same forward and backward passes. Null if the optimizer works in the backward pass.
  std::shared_ptr<RecordedParts> parts_under(MemoryPolicy policy);

  SharedTraces traces;  ///< used if they cannot be shared with other training runs

 private:
  std::vector<std::pair<MemoryPolicy, std::shared_ptr<RecordedParts>>> parts_;
};

}  // namespace stages
