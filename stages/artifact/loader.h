#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "runner/shared/stage/run_context.h"
#include "stages/artifact/dataset.h"
#include "stages/random/permutation.h"
#include "stages/tensor/batch.h"

namespace stages {

/// Reads one pass over a dataset in a given order, batch by batch, ahead of its user and in threads
/// as the dataset's LoaderOptions say. The batches are the same bits for any number of workers.
/// Errors of sample() come out of next(), at the batch they belong to. Destroying a loader that is
/// not at its end stops its threads.
class Loader {
 public:
  /// `order`: of indices into the dataset. `drop_last` leaves out an incomplete last batch. The
  /// pass is entered at `first_batch`, from 0 to batches(): nothing is read of those before it.
  Loader(std::shared_ptr<const Dataset> dataset, SampleOrder order, std::int64_t batch_size,
         std::int64_t epoch, bool drop_last = false, std::int64_t first_batch = 0);
  ~Loader();

  /// The next batch, samples stacked, `indices` set; nullopt at the end. A batch whose samples were
  /// all skipped is left out; one with some skipped is smaller.
  std::optional<Batch> next();

  /// Batches of a whole pass if no sample is skipped.
  std::int64_t batches() const;
  /// The first_batch at which another loader continues with what next() gives from here: batches
  /// given out or left out, and those before this loader's first.
  std::int64_t position() const;
  /// Samples that this loader skipped so far because the recipe says to skip what cannot be read.
  std::int64_t skipped() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// How far a pass over a dataset is, for whoever watches; it begins where this is made.
class PassProgress {
 public:
  /// `phase` as in Progress; the pass has `steps` batches or samples.
  PassProgress(std::string phase, std::int64_t steps) : phase_(std::move(phase)), steps_(steps) {}
  /// Once `step` of them, at least one, and `samples` samples are done.
  runner::Progress after(std::int64_t step, std::int64_t samples) const;

 private:
  const std::string phase_;
  const std::int64_t steps_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace stages
