#include "stages/train/gradient.h"

#include <algorithm>
#include <cassert>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include <torch/autograd.h>
#include <torch/nn/module.h>
#include <torch/utils.h>

#include "stages/numerics/recomputable_module.h"
#include "stages/plan/repetition.h"
#include "stages/ranks/rank_group.h"
#include "stages/ranks/rank_statistics.h"
#include "stages/tensor/loss_term.h"
#include "stages/tensor/step_phase.h"
#include "stages/train/joined_statistics.h"
#include "stages/train/sharded_gradients.h"
#include "stages/train/step_graph.h"
#include "stages/train/validation.h"

namespace stages {
namespace {

std::vector<std::int64_t> range(std::int64_t begin, std::int64_t end) {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(end - begin));
  std::iota(numbers.begin(), numbers.end(), begin);
  return numbers;
}

/// Returns dropout's names for the rows of units [begin, end). They do not depend on how a batch is
/// split. Samples are named by index, or by position in the batch if their indices are unknown;
/// rows of groups are named by position in the batch's tensor.
RowNames row_names(const Batch& batch, std::int64_t begin, std::int64_t end) {
  if (!batch.grouped()) {
    const auto& indices = batch.indices;
    return {{"", indices.empty() ? range(begin, end)
                                 : std::vector(indices.begin() + begin, indices.begin() + end)}};
  }
  RowNames names;
  for (const auto& [input, tensor] : batch.tensors()) {
    const auto [first, end_row] = batch.rows(input, begin, end);
    names.emplace(input, range(first, end_row));
  }
  return names;
}

/// A copy of the running statistics of a network's layers (BatchNorm), made by the constructor and
/// restored by put_back().
class Collected {
 public:
  explicit Collected(const torch::nn::Module& network) {
    for (const at::Tensor& buffer : network.buffers())
      buffers_.emplace_back(buffer, buffer.detach().clone());
  }
  void put_back() const {
    const torch::NoGradGuard no_graph;
    for (const auto& [buffer, values] : buffers_) buffer.copy_(values);
  }

 private:
  std::vector<std::pair<at::Tensor, at::Tensor>> buffers_;
};

/// True if the ranks exchange embeddings in accumulate_gradient(), which then also handles an
/// out-of-memory error on any of them.
bool ranks_meet(const TrainingStep& step, const StepPlan& plan, const runner::RankOfRun& ranks) {
  return ranks.size > 1 && (plan.two_pass || couples_batch(step));
}

/// Implements one call of accumulate_gradient().
class Accumulation {
 public:
  Accumulation(const TrainingStep& step, const PreparedNetwork& network, const Batch& batch,
               double weight, const StepPlan& plan, const StepKey& key,
               const AccumulationOptions& options)
      : step_(step),
        network_(network),
        batch_(batch),
        plan_(plan),
        key_(key),
        options_(options),
        ranks_(options.ranks),
        share_(share_of_rank(ranks_.rank)),
        size_(size_in(share_)),
        mixes_over_ranks_(ranks_.size > 1 && mixes_batch(step)),
        weight_{weight, step.weighs_samples()
                            ? send_to(batch.device(), torch::tensor(weight, torch::kDouble))
                            : at::Tensor()},
        numbers_(weight, step.scored(batch)) {}

  StepNumbers run() && {
    const ScopedActivationCheckpointing recomputed(network_.module(),
                                                   plan_.activation_checkpointing);
    std::optional<ScopedRankStatistics> statistics;
    share_statistics(statistics);
    // The same for all ranks: the first one has the largest share.
    const bool is_cut = size_in(share_of_rank(0)) < batch_.units(),
               meets_others = ranks_meet(step_, plan_, ranks_);
    if (is_cut && (plan_.two_pass || meets_others)) run_two_passes();
    else if (meets_others) together(ranks_, [&] { run_one_pass(); });
    else run_one_pass();
    return std::move(numbers_);
  }

  void see() && {
    const torch::NoGradGuard no_graph;
    std::optional<ScopedRankStatistics> statistics;
    share_statistics(statistics);
    remember_statistics();
    const auto see_part = [&](const Batch& part) {
      encode(part);
      return NamedTensors();
    };
    for_each_part("seen", see_part, [](const NamedTensors&) {});
    join_statistics();
    if (RankGroup* const group = group_of(ranks_)) group->answer_rest();
  }

 private:
  Share share_of_rank(int rank) const {
    return share_of(batch_.units(), units_in_group(step_), rank, ranks_.size);
  }

  std::int64_t size_in(const Share& share) const {
    return plan_.micro_batch > 0 ? std::min(plan_.micro_batch, share.units()) : share.units();
  }

  void share_statistics(std::optional<ScopedRankStatistics>& statistics) const {
    if (ranks_.size > 1 && !is_over_groups(step_))
      statistics.emplace(ranks_, share_.counts, batch_.units(), /*is_declared=*/mixes_over_ranks_);
  }

  /// Layers that run on one group at a time collect only the statistics of their rank's groups.
  void remember_statistics() {
    if (ranks_.size > 1 && is_over_groups(step_))
      collected_.emplace(network_.module(), ranks_, share_.counts);
  }
  void join_statistics() const {
    if (collected_) collected_->join();
  }

  /// Runs the micro-batches one after another and calls `keep(run(part))` for each; during `run`,
  /// dropout is seeded for the rows of the part. A dry run may know the result of a micro-batch
  /// without running it (Repetition). `name` names the pass.
  template <typename Run, typename Keep>
  void for_each_part(const char* name, Run run, Keep keep) const {
    for_each_part_of(share_, name, run, keep);
  }

  template <typename Run, typename Keep>
  void for_each_part_of(const Share& share, const char* name, Run run, Keep keep) const {
    Repetition parts({name, batch_, network_.module()});
    for (std::int64_t begin = share.begin, end = 0; begin < share.end; begin = end) {
      end = end_of_part(begin, size_, share.end);
      keep(parts.next(end - begin, [&]() -> NamedTensors {
        const ScopedDropout dropout(network_.module(), key_, row_names(batch_, begin, end));
        return run(size_ == batch_.units() ? batch_ : batch_.part(begin, end));
      }));
    }
  }

  /// Layers that mix the samples of a part (BatchNorm) cannot process a last part with one sample,
  /// so the last part takes a second sample from the previous one. With several ranks, these layers
  /// also see samples outside the part.
  std::int64_t end_of_part(std::int64_t begin, std::int64_t size, std::int64_t last) const {
    const std::int64_t end = std::min(begin + size, last);
    if (!step_.mixes_samples() || mixes_over_ranks_ || last - end != 1) return end;
    return end - begin > 2 ? end - 1 : end + 1;
  }

  std::int64_t parts_of(const Share& share) const {
    std::int64_t parts = 0;
    for (std::int64_t begin = share.begin; begin < share.end; ++parts)
      begin = end_of_part(begin, size_in(share), share.end);
    return parts;
  }

  /// Computes the gradients of a part and, if they are sharded, sums them over the ranks.
  void summed(const std::function<void()>& backward) const {
    if (!options_.sharded) return backward();
    ShardedGradients::Part part(*options_.sharded);
    backward();
    part.end();
  }

  /// After `parts` parts on this rank, takes part in the sums of the ranks that have more parts.
  /// The first rank has the most.
  void sum_rest(std::int64_t parts) const {
    for (const std::int64_t most = parts_of(share_of_rank(0)); options_.sharded && parts < most;
         ++parts)
      ShardedGradients::Part(*options_.sharded).end();
  }

  void run_one_pass() {
    remember_statistics();
    const auto compute = [&](const Batch& part) {
      Measured measured;
      {
        const ScopedPrecision precision(base(), part.device());
        measured = measured_loss(encoded_in_scope(part), part);
      }
      if (options_.before_backward) options_.before_backward(measured.loss);
      summed([&] { backward(share_.counts ? measured.loss : measured.loss * 0); });
      return share_.counts ? measured.sums : measured.sums * 0;
    };
    StepGraph* const graph = options_.graph;
    const auto run = [&](const Batch& part) {
      return NamedTensors{
          {"sums", graph ? graph->run(part, weight_, numbers_, compute) : compute(part)}};
    };
    for_each_part(graph && graph->replays() ? "replayed" : "one", run,
                  [&](const NamedTensors& kept) {
                    numbers_.add(kept.at("sums"));
                    if (options_.after_micro_batch) options_.after_micro_batch();
                  });
    sum_rest(parts_of(share_));
    join_statistics();
  }

  /// Gradient caching: Gao, Zhang, Han and Callan, "Scaling deep contrastive learning batch size
  /// under memory limited setup", RepL4NLP 2021. The gradient of the loss with respect to the
  /// embeddings needs all embeddings but not their graph, and the gradient with respect to the
  /// weights is linear in it. Each encoding has its own precision scope, so that a weight cast made
  /// without an autograd graph is never reused in one.
  void run_two_passes() {
    assert(!step_.mixes_samples() || mixes_over_ranks_);
    EncodedParts parts;
    NamedTensors own;
    together(ranks_, [&] {
      const Collected before(network_.module());  // each pass would otherwise update the
                                                  // statistics again
      const auto first_pass = [&](const Batch& part) {
        const torch::NoGradGuard no_graph;
        return encode(part);
      };
      // A dry run has no other rank: it encodes the shares of all ranks, one after another.
      const Share share = has_others() ? share_ : Share{0, batch_.units()};
      for_each_part_of(share, "first", first_pass,
                       [&](NamedTensors encoded) { parts.add(std::move(encoded)); });
      before.put_back();
      remember_statistics();
      own = parts.join();
    });
    const Gathered all = gathered(std::move(own));
    together(ranks_, [&] {
      const NamedTensors gradients = own_rows(gradients_by(all.encoded), all);
      // Layers that mix samples run on all ranks together, regardless of their shares.
      const bool computes = share_.counts || mixes_over_ranks_;
      if (computes) run_second_pass(parts, gradients);
      sum_rest(computes ? parts_of(share_) : 0);
      join_statistics();
    });
  }

  void run_second_pass(const EncodedParts& parts, const NamedTensors& gradients) {
    std::size_t number = 0;
    const auto second_pass = [&](const Batch& part) {
      const NamedTensors encoded = encode(part);
      std::vector<at::Tensor> roots, given;
      for (const auto& [name, gradient] : parts.cut(gradients, number)) {
        if (!encoded.at(name).requires_grad()) continue;
        roots.push_back(encoded.at(name));
        given.push_back(share_.counts ? gradient : torch::zeros_like(roots.back()));
      }
      const ScopedPhase phase(StepPhase::kBackward);
      summed([&] {
        if (!roots.empty()) torch::autograd::backward(roots, given);
      });
      return NamedTensors();
    };
    for_each_part("second", second_pass, [&](const NamedTensors&) {
      ++number;
      if (options_.after_micro_batch) options_.after_micro_batch();
    });
  }

  /// The embeddings of all ranks, and the position of this rank's rows among them.
  struct Gathered {
    NamedTensors encoded;
    std::vector<std::pair<std::string, std::pair<std::int64_t, std::int64_t>>> own;  // begin, rows
  };

  Gathered gathered(NamedTensors own) const {
    Gathered all;
    if (!has_others()) {
      all.encoded = std::move(own);
      return all;
    }
    for (const auto& [name, tensor] : own) {
      if (tensor.dim() == 0) {
        all.encoded.set(name, tensor);
        continue;
      }
      const at::Tensor rows = share_.counts ? tensor : tensor.narrow(0, 0, 0);
      const RankGroup::Gathered found = group_of(ranks_)->gather(rows);
      all.encoded.set(name, found.rows);
      all.own.emplace_back(name, std::pair(found.own, rows.size(0)));
    }
    return all;
  }

  bool has_others() const { return group_of(ranks_) != nullptr; }

  /// Returns the gradients of this rank's rows and, on rank 0, also the gradients that have no
  /// rows.
  NamedTensors own_rows(const NamedTensors& gradients, const Gathered& all) const {
    if (!has_others()) return gradients;
    NamedTensors own;
    for (const auto& [name, gradient] : gradients) {
      const auto found =
          std::ranges::find(all.own, name, [](const auto& one) { return one.first; });
      if (found != all.own.end())
        own.set(name, gradient.narrow(0, found->second.first, found->second.second));
      else if (ranks_.rank == 0) own.set(name, gradient);
    }
    return own;
  }

  /// Returns the gradient of the whole batch's loss with respect to each embedding that it depends
  /// on. Everything else that the loss depends on gets its gradient here.
  NamedTensors gradients_by(const NamedTensors& encoded) {
    NamedTensors leaves, gradients;
    for (const auto& [name, tensor] : encoded)
      leaves.set(name, tensor.detach().requires_grad_(tensor.is_floating_point()));
    Measured measured;
    {
      const ScopedPrecision precision(base(), batch_.device());
      measured = measured_loss(leaves, batch_);
    }
    const bool is_first = ranks_.rank == 0;
    numbers_.add(is_first ? measured.sums : measured.sums * 0);
    backward(measured.loss);
    // All ranks have computed the gradient of what the loss itself depends on; only the first rank
    // keeps it.
    if (!is_first) drop_gradients(network_.module());
    for (const auto& [name, leaf] : leaves) {
      if (leaf.grad().defined()) gradients.set(name, leaf.grad());
    }
    return gradients;
  }

  NamedTensors encode(const Batch& part) const {
    const ScopedPrecision precision(base(), part.device());
    return encoded_in_scope(part);
  }

  NamedTensors encoded_in_scope(const Batch& part) const {
    const ScopedPhase phase(StepPhase::kForward);
    return taken_in(base(), step_.encode(network_.module(), part));
  }

  void backward(const at::Tensor& loss) const {
    const ScopedPhase phase(StepPhase::kBackward);
    scaled(loss).backward();
  }

  Precision base() const { return network_.precision(); }

  struct Measured {
    at::Tensor loss;
    at::Tensor sums;  // a row of numbers_
  };
  Measured measured_loss(const NamedTensors& encoded, const Batch& part) {
    const ScopedPhase phase(StepPhase::kLoss);
    const ScopedLossTerm whole("loss");
    const NamedTensors terms = step_.loss(encoded, part);
    at::Tensor sums = numbers_.row(terms, step_.score(encoded, part));
    at::Tensor total;
    for (const auto& [name, term] : terms) total = total.defined() ? total + term : term;
    assert(total.defined());
    return {std::move(total), std::move(sums)};
  }

  at::Tensor scaled(const at::Tensor& loss) const {
    const at::Tensor& divisor = weight_.on_device;
    const at::Tensor mean =
        divisor.defined() ? loss / divisor.to(loss.scalar_type()) : loss / weight_.on_host;
    return options_.scale ? mean * *options_.scale : mean;
  }

  const TrainingStep& step_;
  const PreparedNetwork& network_;
  const Batch& batch_;
  const StepPlan& plan_;
  const StepKey& key_;
  const AccumulationOptions& options_;
  const runner::RankOfRun& ranks_;
  const Share share_;        // the units that this rank computes
  const std::int64_t size_;  // units per micro-batch
  const bool mixes_over_ranks_;
  std::optional<JoinedStatistics> collected_;
  const StepGraph::Weight weight_;
  StepNumbers numbers_;
};

}  // namespace

StepNumbers accumulate_gradient(const TrainingStep& step, const PreparedNetwork& network,
                                const Batch& batch, double weight, const StepPlan& plan,
                                const StepKey& key, const AccumulationOptions& options) {
  return Accumulation(step, network, batch, weight, plan, key, options).run();
}

void see_in_training(const TrainingStep& step, const PreparedNetwork& network, const Batch& batch,
                     const StepPlan& plan, const StepKey& key, const runner::RankOfRun& ranks) {
  const AccumulationOptions options{.ranks = ranks};
  Accumulation(step, network, batch, /*weight=*/1, plan, key, options).see();
}

void drop_gradients(torch::nn::Module& network) {
  for (at::Tensor& parameter : network.parameters()) parameter.mutable_grad().reset();
}

SummedNumbers accumulate_over_ranks(GradientSum& sum, const std::vector<at::Tensor>& parameters,
                                    const TrainingStep& step, const StepPlan& plan,
                                    const std::function<void()>& prepare,
                                    const std::function<StepNumbers()>& accumulate,
                                    const std::function<bool()>& is_rest_safe) {
  std::optional<StepNumbers> numbers;
  const bool is_done_before = ranks_meet(step, plan, sum.ranks());
  if (is_done_before) {
    together(sum.ranks(), prepare);
    numbers = accumulate();
  }
  // Layers that mix samples, and sharded gradients, make the ranks wait for each other.
  const bool meets = step.mixes_samples() || plan.shards_gradients();
  const bool is_safe = sum.over_ranks(parameters, meets, [&] {
    if (!is_done_before) {
      prepare();
      numbers = accumulate();
    }
    return GradientSum::OwnPart{sum.ranks().size > 1 ? numbers->join() : at::Tensor(),
                                is_rest_safe && is_rest_safe()};
  });
  return {*std::move(numbers), is_safe};
}

}  // namespace stages
