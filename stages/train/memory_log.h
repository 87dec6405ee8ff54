#pragma once

#include <array>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "runner/shared/stage/stage.h"
#include "stages/machine/allocator_settings.h"
#include "stages/machine/counting_allocator.h"
#include "stages/machine/memory_meter.h"
#include "stages/memory/policy.h"
#include "stages/tensor/named_tensors.h"
#include "stages/train/step_execution.h"
#include "stages/train/training_kind.h"

namespace torch::nn {
class Module;
}

namespace runner {
class RunContext;
}

namespace stages {

/// A tensor that a training keeps from step to step, and what it is to it.
struct OwnedTensor {
  std::string owner;  ///< "parameter", "gradient", "optimizer_state" or "buffer"
  std::string name;
  at::Tensor tensor;
};

/// What `network` and its optimizer hold now. Tensors that share their memory are given once.
std::vector<OwnedTensor> owned_tensors(const torch::nn::Module& network,
                                       const NamedTensors& optimizer_state);

/// The owners in the order in which they are told; "other" is all that nobody of them owns.
inline constexpr const char* kOwners[] = {"parameter", "gradient", "optimizer_state", "buffer",
                                          "other"};

/// Bytes of what is live, by kOwners. `live`: bytes in all.
std::vector<std::int64_t> bytes_by_owner(const std::vector<OwnedTensor>& owned, std::int64_t live);

/// Tells the run what its memory does while it trains: a line at the start, after every epoch,
/// after the cache was cleared there, and at the end, a detail where it is what the line before
/// said; metrics every few steps and at the end of an epoch; and whose memory it is that grows from
/// epoch to epoch. Clears the cache when it is asked to. Where nobody counts a CPU's tensors
/// (counting_allocator.h) it says nothing.
///
///   memory/allocated, memory/reserved, memory/peak, memory/retries   bytes, of a step
///   memory/peak_by_plan                                              bytes in tensors, measured by
///   planned, at the end memory/live/<owner>, memory/slope/<owner>                        bytes,
///   bytes an epoch; of an epoch
class MemoryLog {
 public:
  struct Options {
    c10::Device device;
    std::int64_t log_every = 1;  ///< steps between the metrics of single steps
    std::int64_t steps = 0;      ///< the last of which is logged too
    EmptyCacheEvery empty_cache_every;
    std::optional<std::int64_t> planned_peak = {};  ///< bytes in tensors that the plan predicts
    /// Gives unused blocks back; empty: as the allocator of `device` does, malloc not at all.
    std::function<void()> empty_cache = {};
  };
  /// `live_by_owner` gives the bytes of kOwners out of so many that are live. `context` must
  /// outlive this.
  MemoryLog(runner::RunContext& context, Options options,
            std::function<std::vector<std::int64_t>(std::int64_t live)> live_by_owner);

  void begin();
  void end_micro_batch();
  /// `step` is 1-based, within the whole training.
  void end_step(std::int64_t step);
  void end_epoch(std::int64_t epoch, std::int64_t step);
  /// `step` is the last one.
  void end(std::int64_t step);

 private:
  bool is_silent() const;
  void say(const std::string& when);
  void clear();
  void watch_growth(std::int64_t step);

  runner::RunContext& context_;
  Options options_;
  const std::function<std::vector<std::int64_t>(std::int64_t)> live_by_owner_;
  MemoryMeter meter_;
  std::int64_t epoch_peak_ = 0, peak_ = 0;  // bytes, since the last line and in all
  std::optional<std::array<std::int64_t, 3>>
      reported_;  // allocated, reserved and peak in the last line that was news
  std::int64_t reported_retries_ = 0;
  std::int64_t micro_batches_ = 0, steps_ = 0, epochs_ = 0, cleared_ = 0;
  std::vector<std::vector<std::int64_t>> live_;  // by epoch and owner
};

/// What was known when a training ran out of memory.
struct OutOfMemory {
  /// A tensor that the training keeps from step to step.
  struct Owned {
    std::string owner, name;  ///< "parameter", "head.weight"
    const void* data = nullptr;
    std::int64_t bytes = 0;
  };
  std::int64_t step = 0;                ///< 1-based
  std::optional<RefusedBlock> refused;  ///< where a CountingAllocator refused it
  std::vector<Owned> owned;
  std::int64_t micro_batch = 0;  ///< 0: the whole batch
  std::int64_t batch_size = 0;
  bool can_be_cut = true;       ///< the batch, without changing the training
  std::string policy;           ///< where the recipe says it, "/memory"
  bool has_own_budget = false;  ///< the recipe sets budget or memory_fraction
  std::string cause;            ///< what was thrown
};

/// What was live, one line for each owner with its largest tensors, and for each phase with the
/// sizes of what was made in it and is nobody's.
std::vector<std::string> live_table(const OutOfMemory& what);

/// What is known of the step `step_number` of a training, in which memory ran out with `error`.
OutOfMemory look_at_out_of_memory(const std::exception& error, std::int64_t step_number,
                                  const TrainingStep& step, const StepExecution& execution,
                                  std::int64_t batch_size, const MemoryPolicy& policy);

/// Says what was tried when, and what to change.
runner::StageError out_of_memory_error(const OutOfMemory& what);

}  // namespace stages
