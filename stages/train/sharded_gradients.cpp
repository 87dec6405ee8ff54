#include "stages/train/sharded_gradients.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

#include <torch/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "stages/plan/memory_trace.h"
#include "stages/ranks/messages.h"
#include "stages/ranks/rank_group.h"

namespace stages {

struct SendWhenComplete final : torch::autograd::PostAccumulateGradHook {
  SendWhenComplete(ShardedGradients& gradients, std::size_t parameter)
      : gradients(gradients), parameter(parameter) {}

  void operator()(const at::Tensor& tensor) override {
    mark_gradient(tensor.grad());
    gradients.complete(parameter);
  }

  ShardedGradients& gradients;
  const std::size_t parameter;
};

namespace {

std::int64_t bytes_of_parameter(const at::Tensor& tensor) {
  return static_cast<std::int64_t>(tensor.nbytes());
}

std::int64_t default_bucket_bytes(const std::vector<at::Tensor>& parameters, int ranks) {
  std::int64_t all = 0;
  for (const at::Tensor& parameter : parameters) all += bytes_of_parameter(parameter);
  return std::clamp(all / (8 * ranks), ShardedGradients::kSmallestBucket, kMessageBytes);
}

}  // namespace

ShardedGradients::ShardedGradients(std::vector<at::Tensor> parameters, StateShard shard,
                                   const runner::RankOfRun& ranks, std::int64_t bucket_bytes)
    : parameters_(std::move(parameters)),
      shard_(std::move(shard)),
      ranks_(ranks),
      buckets_of_(parameters_.size()),
      had_(parameters_.size()) {
  divide(bucket_bytes > 0 ? bucket_bytes : default_bucket_bytes(parameters_, ranks.size));
  begin();
}

/// Fills the buckets from the last parameter to the first, the order in which a backward pass
/// usually computes gradients. Each owner has one bucket that is being filled.
void ShardedGradients::divide(std::int64_t bucket_bytes) {
  std::map<int, Bucket> open;
  for (std::size_t i = parameters_.size(); i-- > 0;) {
    const at::ScalarType type = parameters_[i].scalar_type();
    const auto element = static_cast<std::int64_t>(parameters_[i].element_size());
    const std::vector<Rows> all = rows_of(i, bucket_bytes);
    Bucket& bucket =
        open.try_emplace(shard_.owners[i], Bucket{shard_.owners[i], type}).first->second;
    for (const Rows& rows : all) {
      const bool fits = all.size() == 1 && bucket.type == type &&
                        (bucket.numbers + rows.numbers) * element <= bucket_bytes;
      if (!fits && !bucket.rows.empty())
        buckets_.push_back(std::exchange(bucket, {bucket.owner, type}));
      bucket.type = type;
      bucket.numbers += rows.numbers;
      bucket.rows.push_back(rows);
    }
    if (all.size() > 1) buckets_.push_back(std::exchange(bucket, {bucket.owner, type}));
  }
  for (auto& [owner, bucket] : open) {
    if (!bucket.rows.empty()) buckets_.push_back(std::move(bucket));
  }
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    for (const Rows& rows : buckets_[b].rows) {
      std::vector<std::size_t>& all = buckets_of_[rows.parameter];
      if (all.empty() || all.back() != b) all.push_back(b);
    }
  }
}

/// Divides a parameter that is larger than a bucket. Its buckets contain nothing else, so they are
/// sent one after another.
std::vector<ShardedGradients::Rows> ShardedGradients::rows_of(std::size_t parameter,
                                                              std::int64_t bucket_bytes) const {
  const at::Tensor& tensor = parameters_[parameter];
  const std::int64_t all = tensor.dim() > 0 ? tensor.size(0) : 1;
  if (tensor.numel() == 0) return {};
  const std::int64_t in_row = tensor.numel() / all;
  const std::int64_t at_once =
      std::max<std::int64_t>(bucket_bytes * all / bytes_of_parameter(tensor), 1);
  std::vector<Rows> rows;
  for (std::int64_t begin = 0; begin < all; begin += at_once) {
    const std::int64_t count = std::min(at_once, all - begin);
    rows.push_back({parameter, begin, count, count * in_row, begin + count == all});
  }
  return rows;
}

void ShardedGradients::begin() {
  // A dry run does not repeat a part that it has traced, so that part's hooks set had_ only once.
  const bool is_dry_run = !parameters_.empty() && parameters_.front().is_meta();
  if (!is_dry_run) had_.assign(parameters_.size(), false);
  filled_.assign(parameters_.size(), false);
}

ShardedGradients::Part::Part(ShardedGradients& gradients) : gradients_(gradients) {
  gradients.is_complete_.assign(gradients.parameters_.size(), false);
  gradients.missing_.assign(gradients.buckets_.size(), 0);
  gradients.sent_ = 0;
  gradients.is_late_ = false;
  for (std::size_t i = 0; i < gradients.parameters_.size(); ++i) {
    const at::Tensor& parameter = gradients.parameters_[i];
    if (!parameter.requires_grad()) continue;
    for (const std::size_t bucket : gradients.buckets_of_[i]) ++gradients.missing_[bucket];
    torch::autograd::impl::set_post_acc_grad_hooks(
        parameter, std::make_unique<SendWhenComplete>(gradients, i));
  }
  std::map<at::ScalarType, std::int64_t> most;
  for (const Bucket& bucket : gradients.buckets_)
    most[bucket.type] = std::max(most[bucket.type], bucket.numbers);
  for (const auto& [type, numbers] : most)
    gradients.room_[type] =
        torch::empty({numbers}, gradients.parameters_.front().options().dtype(type));
}

ShardedGradients::Part::~Part() {
  for (const at::Tensor& parameter : gradients_.parameters_)
    torch::autograd::impl::set_post_acc_grad_hooks(parameter, nullptr);
  gradients_.room_.clear();
}

/// Called when a parameter's gradient has been computed. Activation checkpointing computes it in
/// several pieces if several blocks share the parameter.
void ShardedGradients::complete(std::size_t parameter) {
  had_[parameter] = true;
  if (is_complete_[parameter]) {
    is_late_ |= std::ranges::any_of(buckets_of_[parameter],
                                    [this](std::size_t bucket) { return bucket < sent_; });
    return;
  }
  is_complete_[parameter] = true;
  for (const std::size_t bucket : buckets_of_[parameter]) --missing_[bucket];
  while (sent_ < buckets_.size() && missing_[sent_] == 0) send(buckets_[sent_++]);
}

void ShardedGradients::send(const Bucket& bucket) {
  const torch::NoGradGuard no_graph;
  const at::Tensor message = room_.at(bucket.type).narrow(0, 0, bucket.numbers);
  const auto with_each = [&](const auto& use) {
    std::int64_t begin = 0;
    for (const Rows& rows : bucket.rows) {
      const at::Tensor& parameter = parameters_[rows.parameter];
      const auto part_of = [&rows](const at::Tensor& whole) {
        return whole.dim() > 0 ? whole.narrow(0, rows.begin, rows.count) : whole;
      };
      std::vector<std::int64_t> shape = parameter.sizes().vec();  // the parameter may lack memory
      if (!shape.empty()) shape.front() = rows.count;
      use(rows, parameter, part_of, message.narrow(0, begin, rows.numbers).view(shape));
      begin += rows.numbers;
    }
  };
  with_each([&](const Rows& rows, const at::Tensor& parameter, const auto& part_of,
                const at::Tensor& place) {
    if (parameter.grad().defined()) {
      had_[rows.parameter] = had_[rows.parameter] || !filled_[rows.parameter];
      place.copy_(part_of(parameter.grad()));
    } else {
      place.zero_();
    }
  });
  if (RankGroup* const group = group_of(ranks_)) group->sum_to_in_work(message, bucket.owner);
  with_each([&](const Rows& rows, const at::Tensor& parameter, const auto& part_of,
                const at::Tensor& place) {
    if (!is_own(bucket)) {
      if (rows.is_last) parameter.mutable_grad().reset();
      return;
    }
    if (!parameter.requires_grad()) return;
    if (!parameter.grad().defined()) {
      parameter.mutable_grad() = torch::zeros_like(parameter);
      filled_[rows.parameter] = true;
    }
    part_of(parameter.grad()).copy_(place);
  });
}

void ShardedGradients::Part::end() {
  ShardedGradients& all = gradients_;
  while (all.sent_ < all.buckets_.size()) all.send(all.buckets_[all.sent_++]);
  RankGroup* const group = group_of(all.ranks_);
  const bool is_late = group ? group->largest_in_work(all.is_late_ ? 1 : 0) > 0 : all.is_late_;
  if (!is_late) return;
  for (const Bucket& bucket : all.buckets_) all.send(bucket);
}

std::vector<bool> ShardedGradients::finish() {
  std::vector<bool> present = had_;
  if (RankGroup* const group = group_of(ranks_)) {
    const at::Tensor ranks = torch::zeros({std::ssize(had_)}, torch::kInt);
    std::ranges::copy(had_, ranks.mutable_data_ptr<int>());
    group->sum_in_work(ranks);
    const int* const count = ranks.const_data_ptr<int>();
    for (std::size_t i = 0; i < present.size(); ++i) present[i] = count[i] > 0;
  }
  for (std::size_t i = 0; i < present.size(); ++i) {
    if (!present[i]) parameters_[i].mutable_grad().reset();
  }
  return present;
}

}  // namespace stages
