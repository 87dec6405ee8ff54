#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <c10/core/Device.h>

#include "runner/shared/stage/run_context.h"
#include "stages/artifact/loader.h"
#include "stages/memory/policy.h"

namespace stages {

/// Describes an out-of-memory error that has just happened on `device`: on a CPU, the last refused
/// block; on a GPU, the reserved bytes. The caller fills in `from` and `to`. Call this before
/// anything is freed for good.
runner::Recovery memory_incident(c10::Device device);

/// Returns "out of memory in phase 'backward' (4.0 MiB were requested while 61 MiB of 64 MiB were
/// in use)", with the details that are known.
std::string in_words(const runner::Recovery& incident);

/// Frees memory for another attempt: forgets the refused block and returns unused blocks.
void clear_after_out_of_memory(c10::Device device);

/// Chooses how many rows of a batch go through a network at once, for networks that do not mix rows
/// and run without an autograd graph. At first, all of them do. When memory runs out, the batch is
/// first retried unchanged, since the cause may be gone. Then the number of rows per part is
/// halved, rounding up, down to the policy's min_micro_batch, as often as its max_retries and
/// on_oom allow. A size that fits is kept for the following batches.
///
///   RowsAtOnce rows(policy, device, "validation", context);
///   for (const Batch& batch : batches)
///     rows.run(batch.units(), [&](std::int64_t at_once) { encode(batch, at_once); });
class RowsAtOnce {
 public:
  /// `what` describes the work in messages. All other arguments are borrowed.
  RowsAtOnce(const MemoryPolicy& policy, c10::Device device, std::string what,
             runner::RunContext& context)
      : policy_(policy), device_(device), what_(std::move(what)), context_(context) {}

  /// Calls `run` with the number of `units` to process at once, 1 or more, until it returns. If it
  /// gives up, rethrows the last exception of `run`.
  void run(std::int64_t units, const std::function<void(std::int64_t at_once)>& run);

  const MemoryPolicy& policy() const { return policy_; }
  runner::RunContext& context() const { return context_; }

 private:
  bool retries(std::int64_t units, std::int64_t at_once, std::int64_t times);

  const MemoryPolicy& policy_;
  const c10::Device device_;
  const std::string what_;
  runner::RunContext& context_;
  std::optional<std::int64_t> most_;  // the largest number of units that fit at once
};

/// Runs `work`. If memory runs out and `policy` allows a retry, returns unused blocks and runs it
/// once more.
void do_with_retry(const MemoryPolicy& policy, c10::Device device, const std::string& what,
                   runner::RunContext& context, const std::function<void()>& work);

/// Returns the devices on which a node may continue if it lacks the memory to continue on `device`,
/// in the policy's order: "gpu" for another GPU, "cpu". `device` itself is left out.
std::vector<std::string> other_devices(const MemoryPolicy& policy, c10::Device device);

/// Runs `work`. If memory runs out and the policy allows other devices, throws a runner::StageError
/// that names those devices instead of the original exception.
void run_or_go_elsewhere(const MemoryPolicy& policy, c10::Device device,
                         const std::function<void()>& work);

/// A Loader that continues after running out of memory while assembling a batch. If the policy
/// allows a retry, a new loader starts at that batch, once per batch.
class RetriedLoader {
 public:
  /// One pass over the data, as for Loader.
  struct Pass {
    std::shared_ptr<const Dataset> dataset;
    SampleOrder order;
    std::int64_t batch_size = 1;
    std::int64_t epoch = 0;
    bool drop_last = false;
    std::int64_t first_batch = 0;
    PartialReading partial = {};
  };
  /// `policy` and `context` are borrowed.
  RetriedLoader(Pass pass, const MemoryPolicy& policy, runner::RunContext& context);

  // These functions work as in Loader.
  std::optional<Batch> next();
  std::int64_t batches() const { return batches_; }
  std::int64_t position() const { return pass_.first_batch; }
  std::int64_t skipped() const { return skipped_; }

 private:
  Loader& loader();

  Pass pass_;  // the remainder of the pass
  const MemoryPolicy& policy_;
  runner::RunContext& context_;
  std::optional<Loader> loader_;
  std::int64_t batches_ = 0;
  std::int64_t skipped_ = 0, skipped_before_ = 0;  // by earlier loaders
};

}  // namespace stages
