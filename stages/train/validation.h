#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "stages/artifact/dataset.h"
#include "stages/numerics/prepared_network.h"
#include "stages/plan/recovery.h"
#include "stages/tensor/named_tensors.h"
#include "stages/train/step_plan.h"
#include "stages/train/training_kind.h"
#include "stages/train/training_log.h"

namespace stages {

/// How to measure a network on a dataset.
struct ValidationOptions {
  std::int64_t epoch = 0;                    ///< passed to the dataset
  std::int64_t batch_size = 1;               ///< batch size in training
  StepPlan plan = {};                        ///< plan for the training steps
  std::optional<std::int64_t> batches = {};  ///< maximum number of batches
  std::function<void(std::int64_t batch, std::int64_t batches)> before_batch =
      {};                        ///< called with each batch number, 1-based; may throw to stop
  runner::RankOfRun ranks = {};  ///< ranks take turns; each gets the means over all of them
};

/// True if a sample's loss depends on other samples, either of the whole batch or of a group.
bool couples_samples(const TrainingStep& step);

/// Returns the number of units to measure at once when training uses this batch size and plan.
/// Coupled samples are measured in batches as large as in training, so the same samples are
/// compared under every plan.
std::int64_t validation_batch_size(const TrainingStep& step, const StepPlan& plan,
                                   std::int64_t batch_size);

/// Returns the order in which `size` samples are measured, which is always the same. Coupled
/// samples are shuffled: data is often ordered by class, so a batch of consecutive samples would
/// have few classes to distinguish.
SampleOrder validation_order(const TrainingStep& step, std::int64_t size);

/// Measures `step` on one batch, encoded in parts if the plan splits it, in eval mode and without
/// an autograd graph. If `rows` is given, the parts are made as small as memory requires. The
/// result of TrainingStep::kept_in_validation() is stored in `kept`.
StepNumbers measure(const TrainingStep& step, const PreparedNetwork& network, const Batch& batch,
                    const StepPlan& plan, RowsAtOnce* rows = nullptr, at::Tensor* kept = nullptr);

/// Returns the means of `step`'s loss and scores over `dataset`, measuring as many rows at once as
/// fit in memory. Throws runner::StageError if no sample can be read, or if a sample is bad.
Means validate(const TrainingStep& step, const PreparedNetwork& network,
               std::shared_ptr<const Dataset> dataset, const ValidationOptions& options,
               RowsAtOnce& rows);

/// Collects the encoded parts of a batch and joins them as if the batch had been encoded as a
/// whole:
///
///   for (…) parts.add(step.encode(network, part));
///   step.loss(parts.join(), batch);
///
/// Tensors have rows in the order of the batch's units; a part may have any number of rows. A
/// scalar (a learned temperature) is the same in every part.
class EncodedParts {
 public:
  /// Adds the next part. All parts must have the same names.
  void add(NamedTensors encoded);

  /// Concatenates each tensor's rows over all parts; a scalar is kept once. Frees the parts and
  /// keeps only their sizes.
  NamedTensors join();

  /// Returns one part of tensors shaped like the joined ones, as views. Scalars belong to the
  /// first part only; names missing from `joined` are missing from the result.
  NamedTensors cut(const NamedTensors& joined, std::size_t part) const;

 private:
  std::vector<NamedTensors> parts_;
  std::vector<std::string> names_;
  std::vector<std::vector<std::int64_t>>
      offsets_;  // per name: first row of each part, and the end; empty for a scalar
};

}  // namespace stages
