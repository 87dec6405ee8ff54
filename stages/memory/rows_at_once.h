#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include <c10/core/Device.h>

#include "stages/memory/policy.h"

namespace runner {
class RunContext;
}

namespace stages {

/// How many rows of a batch go through a network at once where nothing mixes them and there is no graph: all, until
/// memory runs out. Then the batch is run again as it was, since what took the memory may be gone, and after that in
/// parts of half as many rows, rounded up, down to the policy's min_micro_batch, as often as its max_retries and on_oom
/// allow. What was found to fit holds for the batches that follow.
///
///   RowsAtOnce rows(policy, device, "validation", context);
///   for (const Batch& batch : batches) rows.run(batch.units(), [&](std::int64_t at_once) { encode(batch, at_once); });
class RowsAtOnce {
 public:
  /// `what` is run, in words. All is borrowed.
  RowsAtOnce(const MemoryPolicy& policy, c10::Device device, std::string what, runner::RunContext& context)
      : policy_(policy), device_(device), what_(std::move(what)), context_(context) {}

  /// Calls `run` with how many of `units` go at once, 1 or more, until it returns. What it throws last leaves this.
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

/// Does `work`, and once more after unused blocks were returned where memory ran out and `policy` allows a retry.
void do_with_retry(const MemoryPolicy& policy, c10::Device device, const std::string& what, runner::RunContext& context,
                   const std::function<void()>& work);

}  // namespace stages
