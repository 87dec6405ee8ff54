#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "stages/artifact/checkpoint.h"
#include "stages/numerics/numerics.h"

namespace runner {
class RunContext;
}

namespace stages {

/// What a classifier said about every sample of a dataset, in the dataset's order.
struct ClassifiedSamples {
  std::vector<std::string> names;
  at::Tensor logits;         ///< (n, classes) on the CPU, of the network's type; all finite
  at::Tensor labels;         ///< (n) int64 on the CPU, each in [0, classes)
  std::int64_t skipped = 0;  ///< samples the dataset left out because it could not read them
};

/// Runs the checkpoint's network on the context's device as `numerics` say, in eval mode and without a graph, over all
/// samples, or over two batches of a smoke run. Reports progress and looks for cancellation at every batch. Throws
/// runner::StageError for a label the network has no output for and for an output that is not finite, naming the
/// sample, and where no sample is left (kTooFewSamples).
ClassifiedSamples classify(const std::shared_ptr<const Dataset>& dataset, const Checkpoint& checkpoint,
                           std::int64_t batch_size, const Numerics& numerics, runner::RunContext& context);

}  // namespace stages
