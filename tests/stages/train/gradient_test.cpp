#include "stages/train/gradient.h"

#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include "tests/support/gradients.h"

namespace stages {
namespace {

TEST(Gradient, MicroBatchesAddUpToTheWholeBatch) {
  const Batch batch = ten_samples();
  for (const Drops drops : kEveryDrop) {
    DroppingNet net(drops);
    const at::Tensor whole = gradient_of(DroppingStep(), net, batch);
    for (const std::int64_t micro_batch : {1, 3, 4, 9, 10, 64}) {
      EXPECT_LT(
          distance(gradient_of(DroppingStep(), net, batch, {.micro_batch = micro_batch}), whole),
          1e-12)
          << static_cast<int>(drops) << " " << micro_batch;
    }
  }
}

TEST(Gradient, MeanOfMicroBatchMeansWouldDiffer) {
  const DroppingStep step;
  const Batch batch = ten_samples();
  for (const Drops drops : kEveryDrop) {
    DroppingNet net(drops);
    at::Tensor wrong = torch::zeros({}, torch::kDouble);
    for (const auto& [begin, end] : {std::pair(0, 4), std::pair(4, 8), std::pair(8, 10)}) {
      Batch part = batch.part(begin, end);
      for (std::int64_t place = begin; place < end; ++place)
        part.indices.push_back(place);  // rules out differences caused by masks
      wrong = wrong + gradient_of(step, net, part) / 3;
    }
    EXPECT_GT(distance(wrong, gradient_of(step, net, batch)), 1e-3) << static_cast<int>(drops);
  }
}

TEST(Gradient, SampleWeightsAreTheDivisor) {
  class WeightedStep final : public TinyStep {
   public:
    NamedTensors encode(torch::nn::Module& network, const Batch& part) const override {
      return DroppingStep().encode(network, part);
    }
    NamedTensors loss(const NamedTensors& encoded, const Batch& part) const override {
      const at::Tensor each =
          torch::cross_entropy_loss(encoded.at("logits"), part["label"], {}, at::Reduction::None);
      return {{"cross_entropy", (each * part["weight"]).sum()}};
    }
    double weight(const Batch& batch) const override {
      return batch["weight"].sum().item<double>();
    }
  };
  const WeightedStep step;
  DroppingNet net(Drops::kNothing);
  NamedTensors tensors = ten_samples().tensors();
  tensors.set("weight", torch::rand(10, torch::kDouble) + 0.1);
  const Batch batch(tensors, 10);
  const at::Tensor whole = gradient_of(step, net, batch);
  EXPECT_LT(distance(gradient_of(step, net, batch, {.micro_batch = 4}), whole), 1e-12);
  EXPECT_GT(distance(gradient_of(DroppingStep(), net, batch), whole), 1e-2);
}

TEST(Gradient, DropoutDependsOnlyOnSeedStepAndSamples) {
  Batch batch = ten_samples();
  const auto gradient = [&](Drops drops, const StepKey& key, std::int64_t micro_batch = 0) {
    DroppingNet net(drops);
    return gradient_of(DroppingStep(), net, batch, {.micro_batch = micro_batch}, key);
  };
  for (const Drops drops : {Drops::kElements, Drops::kSamples, Drops::kAttention}) {
    batch.indices = {};
    const at::Tensor by_place = gradient(drops, {7, 1});
    batch.indices = {12, 5, 77, 3, 40, 41, 8, 1000, 0, 9};
    const at::Tensor whole = gradient(drops, {7, 1});
    EXPECT_LT(distance(gradient(drops, {7, 1}, 4), whole), 1e-12);
    EXPECT_TRUE(gradient(drops, {7, 1}).equal(whole));
    EXPECT_GT(distance(by_place, whole), 1e-3);
    EXPECT_GT(distance(gradient(drops, {7, 2}), whole), 1e-3);
    EXPECT_GT(distance(gradient(drops, {8, 1}), whole), 1e-3);
  }
}

TEST(Gradient, DropoutByPositionInAMicroBatchWouldDiffer) {
  const Batch batch = ten_samples();  // its samples are identified by position only
  DroppingNet net(Drops::kElements);
  at::Tensor wrong = torch::zeros({}, torch::kDouble);
  for (const auto& [begin, end] : {std::pair(0, 4), std::pair(4, 8), std::pair(8, 10)}) {
    const Batch part = batch.part(begin, end);
    wrong = wrong + gradient_of(DroppingStep(), net, part) * static_cast<double>(part.units()) / 10;
  }
  EXPECT_GT(distance(wrong, gradient_of(DroppingStep(), net, batch)), 1e-3);
}

/// Records how many samples each micro-batch had.
class MixingStep final : public TinyStep {
 public:
  explicit MixingStep(bool mixes) : mixes_(mixes) {}
  bool mixes_samples() const override { return mixes_; }
  NamedTensors encode(torch::nn::Module& network, const Batch& part) const override {
    parts.push_back(part.units());
    return DroppingStep().encode(network, part);
  }

  mutable std::vector<std::int64_t> parts;

 private:
  const bool mixes_;
};

// BatchNorm does not support a single sample; micro-batches are still weighted by their numbers of
// samples.
TEST(Gradient, LastMicroBatchHasSeveralSamplesIfLayersMixSamples) {
  const Batch batch = ten_samples();
  DroppingNet net(Drops::kNothing);
  const at::Tensor whole = gradient_of(DroppingStep(), net, batch);
  const auto parts = [&](bool mixes, std::int64_t micro_batch) {
    const MixingStep step(mixes);
    EXPECT_LT(distance(gradient_of(step, net, batch, {.micro_batch = micro_batch}), whole), 1e-12);
    return step.parts;
  };
  using Parts = std::vector<std::int64_t>;
  EXPECT_EQ(parts(true, 3), (Parts{3, 3, 2, 2}));
  EXPECT_EQ(parts(false, 3), (Parts{3, 3, 3, 1}));
  EXPECT_EQ(parts(true, 9), (Parts{8, 2}));
  EXPECT_EQ(parts(true, 4), (Parts{4, 4, 2}));
  EXPECT_EQ(parts(true, 10), (Parts{10}));
}

TEST(Gradient, BatchesAreOnlySplitBetweenGroups) {
  const Batch batch = four_groups();
  const GroupStep step;
  for (const Drops drops : kEveryDrop) {
    DroppingNet net(drops);
    const at::Tensor whole = gradient_of(step, net, batch);
    for (const std::int64_t micro_batch : {1, 2, 3}) {
      EXPECT_LT(distance(gradient_of(step, net, batch, {.micro_batch = micro_batch}), whole), 1e-12)
          << static_cast<int>(drops) << " " << micro_batch;
    }
  }
}

TEST(Gradient, DropoutInGroupsByPositionInAMicroBatchWouldDiffer) {
  const Batch batch = four_groups();
  DroppingNet net(Drops::kElements);
  at::Tensor wrong = torch::zeros({}, torch::kDouble);
  for (std::int64_t group = 0; group < 4; ++group)
    wrong = wrong + gradient_of(GroupStep(), net, batch.part(group, group + 1)) / 4;
  EXPECT_GT(distance(wrong, gradient_of(GroupStep(), net, batch)), 1e-3);
}

TEST(Gradient, DropoutInGroupsNeedsNamedRows) {
  GroupStep step;
  step.names_inputs = false;
  DroppingNet drops(Drops::kElements), drops_nothing(Drops::kNothing);
  gradient_of(step, drops_nothing, four_groups());
  try {
    gradient_of(step, drops, four_groups());
    FAIL();
  } catch (const std::logic_error& error) {
    EXPECT_STREQ(error.what(), "dropout: no ScopedInput sets the input of these rows");
  }
}

}  // namespace
}  // namespace stages
