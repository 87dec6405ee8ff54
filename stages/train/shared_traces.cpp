#include "stages/train/shared_traces.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace stages {
namespace {

/// Lists all members, so that the compiler rejects this code if a new member is missing: it must be
/// added as one that counts or as one that does not.
auto what_counts(const MemoryPolicy& policy) {
  const auto& [pointer, allow, micro_batch, micro_batch_is_most, min_micro_batch, precision, tf32,
               layout, two_pass, two_pass_is_open, activation_checkpointing, checkpointing_is_open,
               offloads_optimizer, offload_is_open, sharding, shard_is_open, optimizer_in_backward,
               in_backward_is_open, cuda_graphs, loss_form, budget, budget_share, memory_fraction,
               empty_cache_every, allocator, recovery] = policy;
  static_cast<void>(std::tie(two_pass_is_open, checkpointing_is_open, offload_is_open,
                             shard_is_open, in_backward_is_open));  // choices
  static_cast<void>(
      std::tie(budget, budget_share, memory_fraction));  // limits that the plan is compared with
  static_cast<void>(recovery);                           // matters only if the plan was wrong
  return std::tie(pointer, allow, micro_batch, micro_batch_is_most, min_micro_batch, precision,
                  tf32, layout, two_pass, activation_checkpointing, offloads_optimizer, sharding,
                  optimizer_in_backward, cuda_graphs, loss_form, empty_cache_every, allocator);
}

bool have_equal_samples(const DatasetDescription& one, const DatasetDescription& other) {
  const auto same_tensor = [](const TensorSpec& a, const TensorSpec& b) {
    return a.name == b.name && a.shape == b.shape && a.dtype == b.dtype;
  };
  if (!std::ranges::equal(one.tensors, other.tensors, same_tensor)) return false;
  if (one.classes.size() != other.classes.size() || one.pair_of != other.pair_of ||
      one.ordinal != other.ordinal || one.captions != other.captions)
    return false;
  if (!one.source || !other.source) return !one.source && !other.source;
  return have_equal_samples(*one.source, *other.source);
}

}  // namespace

bool is_computed_alike(const MemoryPolicy& one, const MemoryPolicy& other) {
  return what_counts(one) == what_counts(other);
}

bool are_traced_alike(const TracedAs& one, const TracedAs& other) {
  if (one.model != other.model || one.step != other.step ||
      one.micro_batches != other.micro_batches || one.resumes != other.resumes ||
      one.batches != other.batches || one.validated != other.validated)
    return false;
  if (!(one.options == other.options) || !is_computed_alike(one.policy, other.policy) ||
      !(one.backend == other.backend))
    return false;
  if (!have_equal_samples(one.data, other.data) ||
      !have_equal_samples(one.network_data, other.network_data))
    return false;
  if (!one.validation || !other.validation) return !one.validation && !other.validation;
  return have_equal_samples(*one.validation, *other.validation);
}

TracedPolicy SharedTraces::of(const TracedAs& training,
                              const std::function<TracedPolicy()>& trace) {
  auto found = std::ranges::find_if(
      known_, [&](const Known& known) { return are_traced_alike(known.training, training); });
  if (found == known_.end()) {
    try {
      known_.push_back({training, trace()});
    } catch (const runner::StageError& error) {
      known_.push_back({training, error});
    }
    found = known_.end() - 1;
  }
  if (const auto* refused = std::get_if<runner::StageError>(&found->result))
    throw runner::StageError(*refused);
  return std::get<TracedPolicy>(found->result);
}

std::shared_ptr<RecordedParts> SearchTraces::parts_under(MemoryPolicy policy) {
  if (policy.optimizer_in_backward) return nullptr;
  policy.offloads_optimizer = false;
  policy.allocator = {};
  for (const auto& [known, parts] : parts_) {
    if (is_computed_alike(known, policy)) return parts;
  }
  return parts_.emplace_back(std::move(policy), std::make_shared<RecordedParts>()).second;
}

}  // namespace stages
