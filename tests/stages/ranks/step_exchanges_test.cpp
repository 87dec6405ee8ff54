// How often the ranks wait for each other in a step, and what happens if one of them fails between.

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include "stages/machine/device.h"
#include "stages/ranks/messages.h"
#include "stages/train/step_snapshot.h"
#include "stages/weights/weights.h"
#include "tests/support/by_ranks.h"
#include "tests/support/gradients.h"
#include "tests/support/refusing_allocator.h"

namespace stages {
namespace {

const SgdOptions kMomentum{.learning_rate = 0.1, .momentum = 0.9};

/// DroppingNet with more weights, which multiply its result.
class LargerNet final : public torch::nn::Module {
 public:
  /// Each matrix has kAloneBytes bytes.
  explicit LargerNet(int matrices)
      : net_(register_module("net", std::make_shared<DroppingNet>(Drops::kAll))) {
    for (int i = 0; i < matrices; ++i)
      matrices_.push_back(register_parameter("matrix" + std::to_string(i),
                                             torch::ones({kAloneBytes / 8}, torch::kDouble)));
  }
  at::Tensor forward(const at::Tensor& points) const {
    at::Tensor logits = net_->forward(points);
    for (const at::Tensor& matrix : matrices_) logits = logits * matrix.mean();
    return logits;
  }

 private:
  const std::shared_ptr<DroppingNet> net_;
  std::vector<at::Tensor> matrices_;
};

class LargerStep final : public TinyStep {
 public:
  NamedTensors encode(torch::nn::Module& network, const Batch& part) const override {
    return {{"logits", dynamic_cast<LargerNet&>(network).forward(part["image"])}};
  }
};

struct StepCase {
  int matrices = 0;
  OptimizerOptions optimizer = kMomentum;
  GradientClip clip = {};
  std::int64_t histograms_every = 0;
  StepPlan plan = {};
};

StepExecution execution_of(const StepCase& given, const LargerStep& step, LargerNet& network,
                           const runner::RankOfRun& own) {
  const ParameterGroup all{
      .name = "", .optimizer = given.optimizer, .parameters = trained_parameters(network)};
  return StepExecution(step, network, {all}, given.plan, given.clip, at::kCPU, {}, own,
                       given.histograms_every);
}

/// Networks with the same weights, made one after another since all threads share a generator.
std::vector<std::unique_ptr<LargerNet>> networks_of(const StepCase& given, std::size_t ranks) {
  std::vector<std::unique_ptr<LargerNet>> networks;
  for (std::size_t rank = 0; rank < ranks; ++rank)
    networks.push_back(std::make_unique<LargerNet>(given.matrices));
  return networks;
}

/// Returns how often two ranks wait for each other in each of three steps.
std::vector<std::int64_t> exchanges_of(const StepCase& given) {
  std::vector<std::int64_t> counts;
  const Batch batch = ten_samples();
  const auto networks = networks_of(given, 2);
  run_as_ranks(2, [&](const runner::RankOfRun& own) {
    LargerNet& network = *networks[static_cast<std::size_t>(own.rank)];
    const LargerStep step;
    StepExecution execution = execution_of(given, step, network, own);
    const RankGroup& group = *group_of(own);
    for (const std::int64_t number : {1, 2, 3}) {
      const std::int64_t before = group.exchanges();
      execution.commit(execution.compute(batch, {7, number}));
      if (own.rank == 0) counts.push_back(group.exchanges() - before);
    }
  });
  return counts;
}

TEST(StepExchanges, SmallNetworkNeedsOne) {
  const std::vector<std::int64_t> counts = exchanges_of({});
  EXPECT_GT(counts[0], 1) << "the ranks agree on the gradients, and the optimizer allocates";
  EXPECT_EQ(counts[1], 1);
  EXPECT_EQ(counts[2], 1);
}

TEST(StepExchanges, LargeGradientIsSentAlone) { EXPECT_EQ(exchanges_of({.matrices = 2})[2], 3); }

TEST(StepExchanges, StepThatAllocatesAfterTheSumNeedsOneMore) {
  EXPECT_EQ(exchanges_of({.clip = {.norm = 1e-3}})[2], 2);
  EXPECT_EQ(exchanges_of({.clip = {.value = 1e-3}})[2], 2);
  EXPECT_EQ(exchanges_of({.optimizer = LionOptions{.learning_rate = 1e-3}})[2], 2);
  EXPECT_EQ(exchanges_of({.histograms_every = 2}), (std::vector<std::int64_t>{6, 1, 2}));
}

/// Trains three steps. In the last one, rank `short_rank` is refused a block, and the step is
/// repeated.
struct Trained {
  std::vector<at::Tensor> weights;  ///< of each rank
  std::vector<int> blocks;          ///< that each rank requests in compute() in the last step
  bool was_refused = false;
};
Trained three_steps(const StepCase& given, std::size_t ranks, int short_rank = -1, int block = 0) {
  Trained trained{std::vector<at::Tensor>(ranks), std::vector<int>(ranks)};
  std::atomic<std::size_t> failed = 0;
  const Batch batch = ten_samples();
  const auto networks = networks_of(given, ranks);
  run_as_ranks(static_cast<int>(ranks), [&](const runner::RankOfRun& own) {
    const auto rank = static_cast<std::size_t>(own.rank);
    LargerNet& network = *networks[rank];
    const LargerStep step;
    StepExecution execution = execution_of(given, step, network, own);
    for (const std::int64_t number : {1, 2, 3}) {
      const StepSnapshot before(network, at::kCPU);
      std::optional<StepExecution::Computed> computed;
      const int requested = RefusingAllocator::requested();
      if (number == 3 && own.rank == short_rank) RefusingAllocator::refuse(block);
      try {
        computed = execution.compute(batch, {7, number});
      } catch (const std::exception& error) {
        EXPECT_TRUE(is_out_of_memory(error)) << error.what();
        ++failed;
        before.restore();
        computed = execution.compute(batch, {7, number});
      }
      trained.blocks[rank] = RefusingAllocator::requested() - requested;
      execution.commit(*computed);
    }
    trained.weights[rank] = in_a_row(network.parameters());
  });
  EXPECT_TRUE(failed == 0 || failed == ranks) << "all repeat a step, or none: " << failed;
  trained.was_refused = failed > 0;
  return trained;
}

// This includes the last block. If a step needs a single exchange, the block is requested before
// it: otherwise the other ranks would not repeat the step.
TEST(StepExchanges, OutOfMemoryAnywhereInAStepIsRecoveredByAll) {
  const RefusingAllocator refusing;
  constexpr int kStride = 9;
  for (const StepCase& given : {StepCase{}, StepCase{.matrices = 1, .clip = {.norm = 1e-3}}}) {
    const std::size_t ranks = given.matrices > 0 ? 2 : 3;
    const Trained expected = three_steps(given, ranks);
    for (const std::size_t short_rank : {std::size_t{0}, ranks - 1}) {
      const int all = expected.blocks[short_rank];
      ASSERT_GT(all, 5 * kStride);
      for (int block = all; block > 0; block -= block > all - 3 ? 1 : kStride) {
        const Trained after = three_steps(given, ranks, static_cast<int>(short_rank), block);
        EXPECT_TRUE(after.was_refused) << short_rank << " " << block;
        for (const at::Tensor& weights : after.weights)
          ASSERT_TRUE(weights.equal(expected.weights.front())) << short_rank << " " << block;
      }
    }
  }
}

}  // namespace
}  // namespace stages
