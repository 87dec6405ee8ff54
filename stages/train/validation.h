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

/// How a dataset is gone through to measure a network on it.
struct ValidationOptions {
  std::int64_t epoch = 0;                    ///< handed to the dataset
  std::int64_t batch_size = 1;               ///< of the training
  StepPlan plan = {};                        ///< of the training
  std::optional<std::int64_t> batches = {};  ///< at most so many
  std::function<void(std::int64_t batch, std::int64_t batches)> before_batch =
      {};  ///< 1-based; may throw to stop
};

/// Is a sample's loss another one in other company: over the whole batch, or over groups of
/// samples?
bool couples_samples(const TrainingStep& step);

/// Units that are measured at once where a training of such batches is cut by such a plan. What
/// couples samples is measured over batches as large as in training, so that the same ones are
/// compared whatever the plan.
std::int64_t validation_batch_size(const TrainingStep& step, const StepPlan& plan,
                                   std::int64_t batch_size);

/// The order in which `size` samples are measured, always the same. What couples samples gets them
/// mixed: data lie class by class, and a batch of neighbours would have few classes to tell apart.
SampleOrder validation_order(const TrainingStep& step, std::int64_t size);

/// What `step` measures on one batch, encoded in parts where the plan cuts it, without a graph and
/// in eval mode. Where `rows` are given, in parts as small as memory asks for. What the step keeps
/// of it goes to `kept`.
StepNumbers measure(const TrainingStep& step, const PreparedNetwork& network, const Batch& batch,
                    const StepPlan& plan, RowsAtOnce* rows = nullptr, at::Tensor* kept = nullptr);

/// The means of `step`'s loss and scores over `dataset`, in as many rows at once as fit. Throws
/// runner::StageError where a sample is unreadable or bad.
Means validate(const TrainingStep& step, const PreparedNetwork& network,
               std::shared_ptr<const Dataset> dataset, const ValidationOptions& options,
               RowsAtOnce& rows);

/// What a batch was encoded to part by part, put together as if it had been encoded as a whole:
///
///   for (…) parts.add(step.encode(network, part));
///   step.loss(parts.join(), batch);
///
/// Tensors have rows in the order of the batch's units, as many a part as they like. A scalar (a
/// learned temperature) is the same in every part.
class EncodedParts {
 public:
  /// The next part; every part has the same names.
  void add(NamedTensors encoded);

  /// Each tensor's rows of all parts, one after another; a scalar once. Parts are forgotten, but
  /// for their sizes.
  NamedTensors join();

  /// Of tensors shaped as the joined ones: the rows of part `part`, as views. Scalars belong to the
  /// first part, and are not in others; names that are missing in `joined` are missing in the
  /// parts.
  NamedTensors cut(const NamedTensors& joined, std::size_t part) const;

 private:
  std::vector<NamedTensors> parts_;
  std::vector<std::string> names_;
  std::vector<std::vector<std::int64_t>>
      offsets_;  // first row of each part by name, and the end; empty for a scalar
};

}  // namespace stages
