#include "stages/plan/retried_loader.h"

#include <utility>

#include "stages/plan/recovery.h"

namespace stages {

RetriedLoader::RetriedLoader(Pass pass, const MemoryPolicy& policy, runner::RunContext& context)
    : pass_(std::move(pass)), policy_(policy), context_(context), batches_(loader().batches()) {}

std::optional<Batch> RetriedLoader::next() {
  std::optional<Batch> batch;
  do_with_retry(policy_, c10::kCPU, "reading a batch", context_, [&] {
    try {
      batch = loader().next();
    } catch (...) {
      loader_.reset();
      skipped_before_ = skipped_;
      throw;
    }
  });
  pass_.first_batch = loader_->position();
  skipped_ = skipped_before_ + loader_->skipped();
  return batch;
}

Loader& RetriedLoader::loader() {
  if (!loader_)
    loader_.emplace(pass_.dataset, pass_.order, pass_.batch_size, pass_.epoch, pass_.drop_last, pass_.first_batch);
  return *loader_;
}

}  // namespace stages
