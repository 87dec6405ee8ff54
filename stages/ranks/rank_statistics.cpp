#include "stages/ranks/rank_statistics.h"

#include <algorithm>
#include <string>
#include <utility>

#include <torch/autograd.h>
#include <torch/types.h>

#include "runner/shared/error/stage_error.h"
#include "stages/ranks/rank_batch_norm.h"
#include "stages/ranks/rank_group.h"

namespace stages {
namespace {

thread_local RankStatisticsPtr statistics_of_thread;

/// The moments that a rank sends to the other ranks.
struct MomentsOfRank {
  const double *count, *means, *squares;

  MomentsOfRank(const double* row, std::int64_t channels)
      : count(row), means(row + 1), squares(means + channels) {}
};

/// Combines the moments of all ranks, in rank order, and writes the result to `moments`. Returns
/// the total count.
double merge_moments(const at::Tensor& rows, const at::Tensor& moments) {
  const std::int64_t channels = moments.size(1);
  const auto* const first = rows.const_data_ptr<double>();
  const auto each_rank = [&](const auto& work) {
    for (std::int64_t rank = 0; rank < rows.size(0); ++rank)
      work(MomentsOfRank(first + rank * rows.size(1), channels));
  };
  double count = 0;
  each_rank([&](const MomentsOfRank& of) { count += *of.count; });
  auto *const means = moments.mutable_data_ptr<double>(), *const squares = means + channels;
  for (std::int64_t channel = 0; channel < channels; ++channel) {
    double sum = 0, sum_of_squares = 0;
    each_rank([&](const MomentsOfRank& of) { sum += *of.count * of.means[channel]; });
    means[channel] = sum / count;
    each_rank([&](const MomentsOfRank& of) {
      const double gap = of.means[channel] - means[channel];
      sum_of_squares += of.squares[channel] + *of.count * gap * gap;
    });
    squares[channel] = sum_of_squares;
  }
  return count;
}

}  // namespace

RankStatistics::RankStatistics(const runner::RankOfRun& ranks, bool counts, std::int64_t units,
                               bool is_declared)
    : ranks_(ranks), counts_(counts), units_(units), is_declared_(is_declared) {}

void RankStatistics::refuse_if_asked() const {
  if (is_declared_ || !was_asked_) return;
  throw runner::StageError(runner::ErrorCode::kOptionConflict,
                           "device.count: " + std::to_string(ranks_.size) +
                               " divides every batch among that many processes, but the network "
                               "calls batch_norm on its samples outside of a BatchNorm layer")
      .in_stage("/device")
      .at("/count")
      .with_help("use torch.nn.BatchNorm2d instead, or set device.count: 1");
}

double RankStatistics::join_moments(const at::Tensor& moments, double count) const {
  was_asked_ = true;
  refuse_if_asked();
  const std::int64_t width = 1 + moments.numel();
  // A row for each rank: its count, its means and its squares, all 0 if its share does not count.
  // Each rank fills only its own row, so the sum contains all rows exactly.
  const auto place = moments.is_cuda() ? moments.options().device(at::kCPU) : moments.options();
  const at::Tensor rows = at::zeros({ranks_.size, width}, place);
  RankGroup* const group = group_of(ranks_);
  if (!group) return count * ranks_.size;
  const at::Tensor on_host = moments.to(place);  // the same tensor on a CPU
  if (counts_) {
    auto* const own = rows.mutable_data_ptr<double>() + ranks_.rank * width;
    *own = count;
    std::copy_n(on_host.const_data_ptr<double>(), on_host.numel(), own + 1);
  }
  group->sum_in_work(rows);
  const double count_of_all = merge_moments(rows, on_host);
  if (moments.is_cuda()) moments.copy_(on_host);
  return count_of_all;
}

void RankStatistics::sum_slopes(const at::Tensor& sums) const {
  RankGroup* const group = group_of(ranks_);
  if (!group) return;
  if (!counts_) sums.zero_();
  group->sum_in_work(sums);
  if (!counts_) sums.zero_();
}

void keep_ranks(torch::autograd::AutogradContext& context, const RankStatisticsPtr& ranks,
                double count) {
  context.saved_data["ranks"] = at::IValue::make_capsule(ranks);
  context.saved_data["count"] = count;
}

KeptRanks kept_ranks(const torch::autograd::AutogradContext& context) {
  const auto found = context.saved_data.find("ranks");
  if (found == context.saved_data.end()) return {};
  return {c10::static_intrusive_pointer_cast<RankStatistics>(found->second.toCapsule()),
          context.saved_data.at("count").toDouble()};
}

RankStatisticsPtr current_rank_statistics() { return statistics_of_thread; }

ScopedRankStatistics::ScopedRankStatistics(const runner::RankOfRun& ranks, bool counts,
                                           std::int64_t units, bool is_declared)
    : before_(std::exchange(statistics_of_thread, c10::make_intrusive<RankStatistics>(
                                                      ranks, counts, units, is_declared))) {
  take_over_batch_norm();
}

ScopedRankStatistics::~ScopedRankStatistics() { statistics_of_thread = before_; }

ScopedOwnStatistics::ScopedOwnStatistics() : before_(std::exchange(statistics_of_thread, {})) {}

ScopedOwnStatistics::~ScopedOwnStatistics() { statistics_of_thread = before_; }

}  // namespace stages
