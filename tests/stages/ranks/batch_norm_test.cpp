// Trains networks with BatchNorm on several ranks.

#include <atomic>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "stages/machine/device.h"
#include "stages/model/convolution_layers.h"
#include "stages/model/linear_layer.h"
#include "stages/model/normalize_batch.h"
#include "stages/numerics/recomputable_module.h"
#include "stages/stages.h"
#include "stages/train/step_snapshot.h"
#include "stages/weights/weights.h"
#include "tests/support/by_ranks.h"
#include "tests/support/model_of.h"
#include "tests/support/pairs.h"
#include "tests/support/refusing_allocator.h"
#include "tests/support/tiny_step.h"

namespace stages {
namespace {

constexpr auto kPixelByPixel = at::MemoryFormat::ChannelsLast;

/// Cross-entropy of a model with layers that mix the samples of a batch.
class NormedStep : public TinyStep {
 public:
  explicit NormedStep(const Model& model) : model_(model) {}
  bool mixes_samples() const override { return true; }
  bool mixes_over_ranks() const override { return true; }
  NamedTensors encode(torch::nn::Module& network, const Batch& part) const override {
    return model_.forward(network, part.tensors());
  }

 private:
  const Model& model_;
};

void make_float64(torch::nn::Module& network) {
  const auto convert = [](at::Tensor tensor) {
    if (tensor.is_floating_point()) tensor.set_data(tensor.to(torch::kDouble));
  };
  for (const at::Tensor& parameter : network.parameters()) convert(parameter);
  for (const at::Tensor& buffer : network.buffers()) convert(buffer);
}

/// The smallest model of an architecture, and its data.
Shrunken shrunken(const std::string& architecture) {
  const DatasetDescription data = {
      .size = 12,
      .tensors = {{"image", {3, 64, 64}, at::kFloat}, {"label", {}, at::kLong}},
      .classes = {"none", "mild", "severe"}};
  const auto model = architecture == "se_resnext"
                         ? model_of(kModelSeResnext, nlohmann::ordered_json::object())
                         : model_of(kModelCnn, {{"architecture", architecture}});
  return dynamic_cast<const ShrinkableModel&>(*model).shrunken(data);
}

Batch images_for(const DatasetDescription& data, std::int64_t count) {
  std::vector<std::int64_t> shape = {count};
  for (const std::int64_t size : data.tensors.front().shape) shape.push_back(size);
  torch::manual_seed(8);
  return Batch(
      {{"image", torch::randn(shape, torch::kDouble)}, {"label", torch::randint(0, 3, {count})}},
      count);
}

/// BatchNorm divides by standard deviations that can be as small as the root of its epsilon, which
/// magnifies the rounding errors of sums. Errors in the code cause far larger differences.
constexpr double kMagnifiedBits = 8 * std::numeric_limits<double>::epsilon() / kBatchNormEpsilon;

class BatchNormOverRanks : public testing::TestWithParam<const char*> {};

TEST_P(BatchNormOverRanks, MatchesTheWholeBatch) {
  const Shrunken small = shrunken(GetParam());
  const auto make_net = [&] {
    auto network = small.model->build(small.data, 3);
    make_float64(*network);
    network->train();
    return network;
  };
  const auto make_step = [&](torch::nn::Module&) { return NormedStep(*small.model); };
  const auto compare = [&](std::int64_t samples, bool recomputes) {
    StepPlan plan;
    plan.activation_checkpointing.blocks = recomputes;
    expect_equal_to_one_rank_as_planned(images_for(small.data, samples), plan, make_net, make_step,
                                        kMagnifiedBits);
  };
  if (GetParam() == std::string("se_resnext")) {
    compare(10, /*recomputes=*/true);
    compare(2, /*recomputes=*/false);  // fewer samples than ranks
  } else {
    compare(10, /*recomputes=*/false);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, BatchNormOverRanks,
                         testing::Values("resnet50", "se_resnext", "densenet121",
                                         "efficientnet_b2"));

/// Maps points of a plane to four values, in float64.
class NormedPoints final : public torch::nn::Module {
 public:
  NormedPoints()
      : first_(register_module("first", torch::nn::Linear(2, 4))),
        norm_(register_module(
            "norm", std::make_shared<BatchNorm>(4, BatchNormStatistics::kCollected, at::kDouble))) {
    to(torch::kDouble);
    const torch::NoGradGuard no_graph;
    at::Generator generator = at::detail::createCPUGenerator(19);
    for (const at::Tensor& parameter : parameters()) parameter.normal_(0.5, 0.5, generator);
  }
  at::Tensor forward(const at::Tensor& points) { return norm_->forward(first_->forward(points)); }

 private:
  torch::nn::Linear first_;
  const std::shared_ptr<BatchNorm> norm_;
};

/// Trains two views of each point to be more similar than views of different points.
class NormedPairsStep final : public TinyStep {
 public:
  NormedPairsStep() { coupling = Coupling::kWholeBatch; }
  bool mixes_samples() const override { return true; }
  bool mixes_over_ranks() const override { return true; }
  NamedTensors encode(torch::nn::Module& network, const Batch& part) const override {
    auto& net = dynamic_cast<NormedPoints&>(network);
    return {{"image", net.forward(part["image"])}, {"view", net.forward(part["view"])}};
  }
  NamedTensors loss(const NamedTensors& encoded, const Batch& part) const override {
    const at::Tensor products = encoded.at("image").matmul(encoded.at("view").t());
    return {{"cross_entropy", torch::cross_entropy_loss(products, torch::arange(part.units()), {},
                                                        at::Reduction::Sum)}};
  }
  NamedTensors score(const NamedTensors&, const Batch&) const override { return {}; }
};

// With twelve ranks and ten pairs, two ranks have none.
TEST(RanksWithBatchNorm, MatchesTheWholeBatchWithAWholeBatchLoss) {
  expect_equal_to_one_rank(
      ten_pairs(), {}, [] { return std::make_shared<NormedPoints>(); },
      [](NormedPoints&) { return NormedPairsStep(); });
}

// Each rank has one image, in channels_last.
TEST(RanksWithBatchNorm, RecomputedBlocksOfOneImageHaveTheSameBits) {
  const DatasetDescription data = {
      .size = 12,
      .tensors = {{"image", {3, 32, 32}, at::kFloat}, {"label", {}, at::kLong}},
      .classes = {"none", "mild", "severe"}};
  const auto model = model_of(kModelSeResnext, {{"layers", {1, 1, 1, 1}}, {"cardinality", 2}});
  const auto make_net = [&] {
    auto network = model->build(data, 3);
    network->train();
    return network;
  };
  const auto make_step = [&](torch::nn::Module&) { return NormedStep(*model); };
  const Batch in_double = images_for(data, 2);
  const Batch batch({{"image", in_double["image"].to(at::kFloat)}, {"label", in_double["label"]}},
                    2);
  StepPlan plan{.numerics = {.layout = Layout::kChannelsLast}};
  const at::Tensor kept = by_ranks(2, batch, plan, make_net, make_step).front().gradient;
  plan.activation_checkpointing.blocks = true;
  EXPECT_TRUE(by_ranks(2, batch, plan, make_net, make_step).front().gradient.equal(kept));
}

/// A convolution and BatchNorm, recomputed or not.
class NormedConvolution final : public RecomputableModule {
 public:
  NormedConvolution(std::int64_t in, std::int64_t out)
      : convolution_(register_module(
            "convolution", std::make_shared<Convolution>(
                               ConvolutionSizes{.in = in, .out = out, .padding = 1}, at::kFloat))),
        norm_(register_module("norm", std::make_shared<BatchNorm>(
                                          out, BatchNormStatistics::kCollected, at::kFloat))) {}
  bool is_block() const override { return true; }

 private:
  at::Tensor compute(const at::Tensor& x) const override {
    const OwnPrecision own(*this);
    return norm_->forward_relu(convolution_->forward(x));
  }

  const std::shared_ptr<Convolution> convolution_;
  const std::shared_ptr<BatchNorm> norm_;
};

/// Two of these blocks, and BatchNorm of their output for each sample.
class NormedNet final : public torch::nn::Module {
 public:
  NormedNet()
      : first_(register_module("first", std::make_shared<NormedConvolution>(3, 4))),
        second_(register_module("second", std::make_shared<NormedConvolution>(4, 3))),
        last_(register_module(
            "last", std::make_shared<BatchNorm>(3, BatchNormStatistics::kCollected, at::kFloat))) {
    const torch::NoGradGuard no_graph;
    at::Generator generator = at::detail::createCPUGenerator(17);
    for (const at::Tensor& parameter : parameters()) parameter.normal_(0.5, 0.5, generator);
  }
  at::Tensor forward(const at::Tensor& images) const {
    const at::Tensor maps = images.contiguous(kPixelByPixel);
    return last_->forward(second_->forward(first_->forward(maps)).mean({2, 3}));
  }

 private:
  const std::shared_ptr<NormedConvolution> first_, second_;
  const std::shared_ptr<BatchNorm> last_;
};

class NormedNetStep final : public TinyStep {
 public:
  bool mixes_samples() const override { return true; }
  bool mixes_over_ranks() const override { return true; }
  NamedTensors encode(torch::nn::Module& network, const Batch& part) const override {
    return {{"logits", dynamic_cast<NormedNet&>(network).forward(part["image"])}};
  }
};

Batch small_images(std::int64_t count) {
  torch::manual_seed(2);
  return Batch(
      {{"image", torch::randn({count, 3, 5, 4})}, {"label", torch::randint(0, 3, {count})}}, count);
}

/// Runs two steps on ranks. In the second, one rank is refused a block, and the step is repeated
/// with blocks recomputed. Returns all weights and buffers of each rank, and whether a block was
/// refused.
struct AfterRefusal {
  std::vector<at::Tensor> states;
  bool was_refused = false;
  bool is_past = false;  // the step requested fewer blocks
};
AfterRefusal two_steps(int ranks, const Batch& batch, int short_rank, int block) {
  AfterRefusal after;
  after.states.resize(static_cast<std::size_t>(ranks));
  std::atomic<int> failed = 0;
  std::atomic<bool> is_past = false;
  run_as_ranks(ranks, [&](const runner::RankOfRun& own) {
    NormedNet network;
    const NormedNetStep step;
    const ParameterGroup all{.name = "",
                             .optimizer = SgdOptions{.learning_rate = 0.1, .momentum = 0.9},
                             .parameters = trained_parameters(network)};
    StepExecution execution(step, network, {all}, {}, {}, at::kCPU, {}, own);
    for (const std::int64_t number : {1, 2}) {
      const StepSnapshot before(network, at::kCPU);
      std::optional<StepExecution::Computed> computed;
      if (number == 2 && own.rank == short_rank) RefusingAllocator::refuse(block);
      try {
        computed = execution.compute(batch, {7, number});
        if (RefusingAllocator::will_refuse()) is_past = true;
        RefusingAllocator::refuse(0);
      } catch (const std::exception& error) {
        RefusingAllocator::refuse(0);
        EXPECT_TRUE(is_out_of_memory(error)) << error.what();
        ++failed;
        before.restore();
        StepPlan next;
        next.activation_checkpointing.blocks = true;
        execution.replace_plan(next);
        computed = execution.compute(batch, {7, number});
      }
      execution.commit(*computed);
    }
    std::vector<at::Tensor> state = network.parameters();
    for (const at::Tensor& buffer : network.buffers()) state.push_back(buffer);
    after.states[static_cast<std::size_t>(own.rank)] = in_a_row(state);
  });
  EXPECT_TRUE(failed == 0 || failed == ranks) << "all repeat a step, or none: " << failed;
  after.was_refused = failed > 0;
  after.is_past = is_past;
  return after;
}

TEST(RanksWithBatchNorm, OutOfMemoryAnywhereInAStepIsRecoveredByAll) {
  const RefusingAllocator refusing;
  constexpr int kStride = 3;
  // If three ranks share two samples, the share of the third rank does not count.
  for (const auto& [samples, ranks] : {std::pair{5, 2}, {2, 3}}) {
    const Batch batch = small_images(samples);
    const at::Tensor expected = two_steps(ranks, batch, /*short_rank=*/-1, 0).states.front();
    for (const int short_rank : {0, ranks - 1}) {
      int refused = 0;
      for (int block = 1;; block += kStride) {
        const AfterRefusal after = two_steps(ranks, batch, short_rank, block);
        for (const at::Tensor& state : after.states)
          ASSERT_TRUE(state.equal(expected)) << samples << " " << short_rank << " " << block;
        refused += after.was_refused;
        if (after.is_past) break;
      }
      // Each layer requests several blocks in both passes.
      EXPECT_GT(refused, 3 * 2) << samples << " " << short_rank;
    }
  }
}

}  // namespace
}  // namespace stages
