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

/// A tensor that training keeps from step to step, and its role.
struct OwnedTensor {
  std::string owner;  ///< "parameter", "gradient", "optimizer_state" or "buffer"
  std::string name;
  at::Tensor tensor;
};

/// Returns the tensors that `network` and its optimizer currently keep. Tensors that share memory
/// are listed once.
std::vector<OwnedTensor> owned_tensors(const torch::nn::Module& network,
                                       const NamedTensors& optimizer_state);

/// The owners in the order in which they are reported; "other" covers everything without an owner.
inline constexpr const char* kOwners[] = {"parameter", "gradient", "optimizer_state", "buffer",
                                          "other"};

/// Returns the live bytes of each owner in kOwners. `live` is the total.
std::vector<std::int64_t> bytes_by_owner(const std::vector<OwnedTensor>& owned, std::int64_t live);

/// Reports the memory use of a training run: a line at the start, after every epoch, after the
/// cache is emptied at the end of an epoch, and at the end (at level detail if it repeats the
/// previous line); metrics every few steps and at the end of an epoch; and the owner of memory that
/// grows from epoch to epoch. Empties the cache when requested. Logs nothing on a CPU if its
/// tensors are not counted (counting_allocator.h).
///
///   memory/allocated, memory/reserved, memory/peak, memory/retries   bytes, after a step
///   memory/peak_by_plan                      peak of live bytes / planned live bytes, at the end
///   memory/live/<owner>, memory/slope/<owner>      bytes, bytes per epoch, after an epoch
class MemoryLog {
 public:
  struct Options {
    c10::Device device;
    std::int64_t log_every = 1;  ///< log every this many steps
    std::int64_t steps = 0;      ///< total number of steps; the last one is logged too
    EmptyCacheEvery empty_cache_every;
    std::optional<std::int64_t> planned_live = {};  ///< live bytes according to the plan
    /// Releases unused blocks. Empty: uses the allocator of `device`, if it keeps any.
    std::function<void()> empty_cache = {};
  };
  /// `live_by_owner` divides a number of live bytes among kOwners. `context` must outlive this
  /// object.
  MemoryLog(runner::RunContext& context, Options options,
            std::function<std::vector<std::int64_t>(std::int64_t live)> live_by_owner);

  void begin();
  void end_micro_batch();
  /// `step` is 1-based and counts from the start of training.
  void end_step(std::int64_t step);
  void end_epoch(std::int64_t epoch, std::int64_t step);
  /// `step` is the last step.
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
  std::int64_t epoch_peak_ = 0, peak_ = 0;  // bytes, since the last line and since the start
                                            // of training
  std::optional<std::array<std::int64_t, 3>>
      reported_;  // allocated, reserved and peak in the last
                  // line that did not repeat the previous one
  std::int64_t reported_retries_ = 0;
  std::int64_t micro_batches_ = 0, steps_ = 0, epochs_ = 0, cleared_ = 0;
  std::vector<std::vector<std::int64_t>> live_;  // indexed by epoch and owner
};

/// The circumstances in which training ran out of memory.
struct OutOfMemory {
  /// A tensor that training keeps from step to step.
  struct Owned {
    std::string owner, name;  ///< "parameter", "head.weight"
    const void* data = nullptr;
    std::int64_t bytes = 0;
  };
  std::int64_t step = 0;                ///< 1-based
  std::optional<RefusedBlock> refused;  ///< the block that a CountingAllocator refused
  std::vector<Owned> owned;
  std::int64_t micro_batch = 0;  ///< 0: the whole batch
  std::int64_t batch_size = 0;
  bool can_be_cut = true;       ///< the batch can be split without changing what is trained
  std::string policy;           ///< the policy's location in the recipe, "/memory"
  bool has_own_budget = false;  ///< the recipe sets budget or memory_fraction
  std::string cause;            ///< message of the exception
};

/// Returns a table of live tensors: one line for each owner with its largest tensors, and one for
/// each phase, with the sizes of the tensors without an owner that were allocated in it.
std::vector<std::string> live_table(const OutOfMemory& what);

/// Collects the circumstances of step `step_number`, which ran out of memory with `error`.
OutOfMemory look_at_out_of_memory(const std::exception& error, std::int64_t step_number,
                                  const TrainingStep& step, const StepExecution& execution,
                                  std::int64_t batch_size, const MemoryPolicy& policy);

/// Returns an error that reports what was tried, in which step, and what to change.
runner::StageError out_of_memory_error(const OutOfMemory& what);

}  // namespace stages
