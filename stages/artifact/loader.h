#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "runner/shared/stage/run_context.h"
#include "stages/artifact/dataset.h"
#include "stages/random/random.h"
#include "stages/tensor/batch.h"

namespace stages {

struct RowRange {
  std::int64_t begin = 0, end = 0;
};

/// A Loader that reads some rows of each batch; others read the rest at the same time.
struct PartialReading {
  /// The rows that are read, of a batch of so many; null: all.
  std::function<RowRange(std::int64_t rows)> own;
  /// Brings the other rows: `tensors`, where they are zeros, and `present`, bytes by row, 0 for a
  /// sample that is skipped. Called by next(), once for each batch, in order.
  std::function<void(const NamedTensors& tensors, const at::Tensor& present)> complete;
};

/// Reads one pass over a dataset in a given order, batch by batch, ahead of its user, in threads as
/// set by the dataset's LoaderOptions. Batches are bitwise equal for any number of workers. next()
/// rethrows errors of sample() at the batch they belong to. Destroying an unfinished loader stops
/// its threads.
class Loader {
 public:
  /// `order`: indices into the dataset. `drop_last` drops an incomplete last batch. The pass starts
  /// at `first_batch`, from 0 to batches(): earlier batches are not read.
  Loader(std::shared_ptr<const Dataset> dataset, SampleOrder order, std::int64_t batch_size,
         std::int64_t epoch, bool drop_last = false, std::int64_t first_batch = 0,
         PartialReading partial = {});
  ~Loader();

  /// The next batch, with samples stacked and `indices` set; nullopt at the end. A batch whose
  /// samples were all skipped is left out; one with some skipped is smaller.
  std::optional<Batch> next();

  /// The number of batches in a whole pass if no sample is skipped.
  std::int64_t batches() const;
  /// The first_batch with which another loader continues from here. Counts the batches before this
  /// loader's first and those that it returned or left out.
  std::int64_t position() const;
  /// Samples that this loader has skipped so far, as the recipe says for unreadable ones.
  std::int64_t skipped() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Progress of a pass over a dataset; time counts from construction.
class PassProgress {
 public:
  /// `phase` as in Progress; the pass has `steps` batches or samples.
  PassProgress(std::string phase, std::int64_t steps) : phase_(std::move(phase)), steps_(steps) {}
  /// The progress once `step` batches or samples, at least one, and `samples` samples are done.
  runner::Progress after(std::int64_t step, std::int64_t samples) const;

 private:
  const std::string phase_;
  const std::int64_t steps_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace stages
