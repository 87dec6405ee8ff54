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

/// Lets a Loader read only some rows of each batch, while other ranks read the rest.
struct PartialReading {
  /// Returns the rows to read from a batch with `rows` rows. If null, all rows are read.
  std::function<RowRange(std::int64_t rows)> own;
  /// Fills in the other rows: in `tensors`, where they are zeros, and in `present`, one byte per
  /// row, 0 for a skipped sample. next() calls this once for each batch, in order.
  std::function<void(const NamedTensors& tensors, const at::Tensor& present)> complete;
};

/// Reads a dataset once in a given order, batch by batch and ahead of its consumer. The dataset's
/// LoaderOptions set the number of threads. Batches are bitwise equal for any number of workers.
/// next() rethrows an error from sample() at the batch it belongs to. Destroying an unfinished
/// loader stops its threads.
class Loader {
 public:
  /// `order` contains indices of samples. `drop_last` drops an incomplete last batch. The pass
  /// starts at `first_batch`, 0 to batches(); earlier batches are not read.
  Loader(std::shared_ptr<const Dataset> dataset, SampleOrder order, std::int64_t batch_size,
         std::int64_t epoch, bool drop_last = false, std::int64_t first_batch = 0,
         PartialReading partial = {});
  ~Loader();

  /// Returns the next batch, with samples stacked and `indices` set; nullopt at the end. Skipped
  /// samples make a batch smaller; a batch without remaining samples is left out.
  std::optional<Batch> next();

  /// Returns the number of batches in a full pass if no sample is skipped.
  std::int64_t batches() const;
  /// Returns the `first_batch` to pass to another loader that is to continue from here: the number
  /// of batches before this loader's first, plus the batches that it has returned or left out.
  std::int64_t position() const;
  /// Returns the number of unreadable samples that this loader has skipped so far.
  std::int64_t skipped() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The progress of a pass over a dataset, timed from construction.
class PassProgress {
 public:
  /// `phase` is as in Progress; the pass has `steps` batches or samples.
  PassProgress(std::string phase, std::int64_t steps) : phase_(std::move(phase)), steps_(steps) {}
  /// Returns the progress after `step` batches or samples of the pass (at least one), with a total
  /// of `samples` samples.
  runner::Progress after(std::int64_t step, std::int64_t samples) const;

 private:
  const std::string phase_;
  const std::int64_t steps_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace stages
