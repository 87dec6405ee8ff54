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

/// What is known of memory of `device` that has just run out: of a CPU what its allocator refused
/// last, of a GPU what was reserved. `from` and `to` are left to whoever knows them. Called before
/// anything is freed for good.
runner::Recovery memory_incident(c10::Device device);

/// "out of memory in phase 'backward' (4.0 MiB were asked for while 61 MiB of 64 MiB were taken)",
/// as far as that is known.
std::string in_words(const runner::Recovery& incident);

/// Makes room for another try: what was refused is forgotten, and unused blocks are returned.
void clear_after_out_of_memory(c10::Device device);

/// How many rows of a batch go through a network at once where nothing mixes them and there is no
/// graph: all, until memory runs out. Then the batch is run again as it was, since what took the
/// memory may be gone, and after that in parts of half as many rows, rounded up, down to the
/// policy's min_micro_batch, as often as its max_retries and on_oom allow. What was found to fit
/// holds for the batches that follow.
///
///   RowsAtOnce rows(policy, device, "validation", context);
///   for (const Batch& batch : batches) rows.run(batch.units(), [&](std::int64_t at_once) {
///   encode(batch, at_once); });
class RowsAtOnce {
 public:
  /// `what` is run, in words. All is borrowed.
  RowsAtOnce(const MemoryPolicy& policy, c10::Device device, std::string what,
             runner::RunContext& context)
      : policy_(policy), device_(device), what_(std::move(what)), context_(context) {}

  /// Calls `run` with how many of `units` go at once, 1 or more, until it returns. What it throws
  /// last leaves this.
  void run(std::int64_t units, const std::function<void(std::int64_t at_once)>& run);

  const MemoryPolicy& policy() const { return policy_; }
  runner::RunContext& context() const { return context_; }

 private:
  bool retries(std::int64_t units, std::int64_t at_once, std::int64_t times);

  const MemoryPolicy& policy_;
  const c10::Device device_;
  const std::string what_;
  runner::RunContext& context_;
  std::optional<std::int64_t> most_;  // that fit
};

/// Does `work`, and once more after unused blocks were returned where memory ran out and `policy`
/// allows a retry.
void do_with_retry(const MemoryPolicy& policy, c10::Device device, const std::string& what,
                   runner::RunContext& context, const std::function<void()>& work);

/// Where the policy lets a node go on that has run out of memory on `device` for good, in its
/// order: "gpu" for another GPU, "cpu"; only what is not `device`.
std::vector<std::string> other_devices(const MemoryPolicy& policy, c10::Device device);

/// Does `work`. Where memory runs out and the policy allows other devices, it throws
/// runner::StageError that names them, in place of what `work` has thrown.
void run_or_go_elsewhere(const MemoryPolicy& policy, c10::Device device,
                         const std::function<void()>& work);

/// A Loader that reads on where memory ran out while a batch was put together, by another one that
/// begins with that batch: once for each batch, where the policy allows a retry.
class RetriedLoader {
 public:
  /// One pass, as Loader has it.
  struct Pass {
    std::shared_ptr<const Dataset> dataset;
    SampleOrder order;
    std::int64_t batch_size = 1;
    std::int64_t epoch = 0;
    bool drop_last = false;
    std::int64_t first_batch = 0;
  };
  /// `policy` and `context` are borrowed.
  RetriedLoader(Pass pass, const MemoryPolicy& policy, runner::RunContext& context);

  // As Loader has them.
  std::optional<Batch> next();
  std::int64_t batches() const { return batches_; }
  std::int64_t position() const { return pass_.first_batch; }
  std::int64_t skipped() const { return skipped_; }

 private:
  Loader& loader();

  Pass pass_;  // what is left of it
  const MemoryPolicy& policy_;
  runner::RunContext& context_;
  std::optional<Loader> loader_;
  std::int64_t batches_ = 0;
  std::int64_t skipped_ = 0, skipped_before_ = 0;  // before this loader
};

}  // namespace stages
