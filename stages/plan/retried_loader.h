#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "stages/artifact/loader.h"
#include "stages/memory/policy.h"

namespace stages {

/// A Loader that reads on where memory ran out while a batch was put together, by another one that begins with that
/// batch: once for each batch, where the policy allows a retry.
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
