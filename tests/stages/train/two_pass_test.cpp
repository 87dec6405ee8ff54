#include "stages/train/gradient.h"

#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/types.h>

#include "tests/support/gradients.h"
#include "tests/support/on_test_device.h"
#include "tests/support/pairs.h"

namespace stages {
namespace {

StepPlan two_passes(std::int64_t micro_batch) {
  return {.micro_batch = micro_batch, .two_pass = true};
}

TEST(TwoPass, ContrastiveLossMatchesTheWholeBatch) {
  const Batch batch = ten_pairs();
  for (const Drops drops : kEveryDrop) {
    for (const bool encodes_temperature : {false, true}) {
      DroppingNet net(drops, 6);
      ContrastiveStep step(net);
      step.encodes_temperature = encodes_temperature;
      const at::Tensor whole = gradient_of(step, net, batch);
      for (const std::int64_t micro_batch : {1, 3, 4, 9}) {
        EXPECT_LT(distance(gradient_of(step, net, batch, two_passes(micro_batch)), whole), 1e-12)
            << static_cast<int>(drops) << " " << encodes_temperature << " " << micro_batch;
      }
      EXPECT_TRUE(gradient_of(step, net, batch, two_passes(10)).equal(whole));
    }
  }
}

TEST(TwoPass, AccumulatingAContrastiveLossWouldDiffer) {
  DroppingNet net(Drops::kAll, 6);
  const ContrastiveStep step(net);
  const at::Tensor whole = gradient_of(step, net, ten_pairs());
  for (const std::int64_t micro_batch : {3, 5})
    EXPECT_GT(distance(gradient_of(step, net, ten_pairs(), {.micro_batch = micro_batch}), whole),
              1e-3)
        << micro_batch;
}

TEST(TwoPass, RandomNumbersWithoutReplayWouldDiffer) {
  DroppingNet net(Drops::kNothing, 6);
  ContrastiveStep step(net);
  step.uses_generator = true;
  const auto gradient = [&](const StepPlan& plan) {
    torch::manual_seed(1);
    return gradient_of(step, net, ten_pairs(), plan);
  };
  EXPECT_GT(distance(gradient(two_passes(4)), gradient({})), 1e-3);
}

TEST(TwoPass, PerSampleLossIsTheSame) {
  const Batch batch = ten_samples();
  for (const Drops drops : kEveryDrop) {
    DroppingNet net(drops);
    const at::Tensor whole = gradient_of(DroppingStep(), net, batch);
    for (const std::int64_t micro_batch : {1, 3, 4, 9})
      EXPECT_LT(distance(gradient_of(DroppingStep(), net, batch, two_passes(micro_batch)), whole),
                1e-12);
  }
}

TEST(TwoPass, GroupsMayHaveDifferentRows) {
  const Batch batch = four_groups();
  for (const Drops drops : kEveryDrop) {
    DroppingNet net(drops);
    const at::Tensor whole = gradient_of(GroupStep(), net, batch);
    for (const std::int64_t micro_batch : {1, 2, 3})
      EXPECT_LT(distance(gradient_of(GroupStep(), net, batch, two_passes(micro_batch)), whole),
                1e-12);
  }
}

TEST(TwoPass, ScaleIsAppliedOnce) {
  DroppingNet net(Drops::kAll, 6);
  const ContrastiveStep step(net);
  const at::Tensor plain = gradient_of(step, net, ten_pairs(), two_passes(4));
  const at::Tensor scaled =
      gradient_of(step, net, ten_pairs(), two_passes(4), {7, 1}, torch::full({}, 1024.0f));
  EXPECT_LT(distance(scaled / 1024, plain), 1e-12);
}

TEST(TwoPass, FrozenEmbeddingsAreUnchanged) {
  class HalfFrozen final : public TinyStep {
   public:
    NamedTensors encode(torch::nn::Module& network, const Batch& part) const override {
      NamedTensors encoded = DroppingStep().encode(network, part);
      encoded.set("frozen", encoded.at("logits").detach() * 2);
      encoded.set("place", torch::arange(part.units()));
      return encoded;
    }
    NamedTensors loss(const NamedTensors& encoded, const Batch& part) const override {
      return TinyStep::loss({{"logits", encoded.at("logits") * encoded.at("frozen")}}, part);
    }
  };
  DroppingNet net(Drops::kAll);
  const at::Tensor whole = gradient_of(HalfFrozen(), net, ten_samples());
  EXPECT_LT(distance(gradient_of(HalfFrozen(), net, ten_samples(), two_passes(4)), whole), 1e-12);
}

TEST(TwoPass, LowPrecisionMatchesTheWholeBatch) {
  const auto gradient = [](Precision precision, bool two_pass) {
    DroppingNet net(Drops::kAll, 6);
    ContrastiveStep step(net);
    net.to(torch::kFloat);
    step.temperature = net.named_parameters()["temperature"];
    NamedTensors tensors = ten_pairs().tensors();
    for (const char* name : {"image", "view"})
      tensors.set(name, tensors.at(name).to(torch::kFloat));
    return gradient_of(step, net, Batch(tensors, 10),
                       {.micro_batch = two_pass ? 4 : 0,
                        .two_pass = two_pass,
                        .numerics = {.precision = precision}});
  };
  const at::Tensor full = gradient(Precision::kFp32, false);
  EXPECT_LT(distance(gradient(Precision::kFp32, true), full), 1e-4);
  for (const Precision precision : {Precision::kBf16, Precision::kFp16}) {
    const at::Tensor whole = gradient(precision, false);
    EXPECT_LT(distance(gradient(precision, true), whole), 0.05);
    EXPECT_FALSE(whole.equal(full));
  }
}

TEST(TwoPass, LossAndScoresMatchTheWholeBatch) {
  DroppingNet net(Drops::kAll, 6);
  const ContrastiveStep step(net);
  const auto means = [&](const StepPlan& plan) {
    net.to(at::Device(test_device()));
    const PreparedNetwork prepared(net, plan.numerics, at::Device(test_device()));
    StepNumbers numbers =
        accumulate_gradient(step, prepared, prepared.placed(ten_pairs()), 10, plan, {7, 1});
    numbers.fetch();
    return numbers.means();
  };
  const Means whole = means({}), twice = means(two_passes(4)), naive = means({.micro_batch = 4});
  EXPECT_NEAR(twice.loss, whole.loss, 1e-12);
  EXPECT_EQ(twice.at("matches"), whole.at("matches"));
  EXPECT_GT(std::abs(naive.loss - whole.loss), 1e-3);
}

/// Normalizes the points within each unit, one unit after another.
class NormalizingStep final : public TinyStep {
 public:
  NamedTensors encode(torch::nn::Module& network, const Batch& part) const override {
    auto& norm = *network.named_children()["norm"]->as<torch::nn::BatchNorm1dImpl>();
    std::vector<at::Tensor> logits;
    for (std::int64_t unit = 0; unit < part.units(); ++unit)
      logits.push_back(norm.forward(part["image"][unit]).mean(0));
    return {{"logits", torch::stack(logits)}};
  }
};

TEST(TwoPass, RunningStatisticsAreUpdatedOnce) {
  torch::nn::Module network;
  network.register_module("norm", torch::nn::BatchNorm1d(3));
  network.to(at::Device(test_device()), torch::kDouble);
  const Batch batch({{"image", torch::randn({6, 4, 3}, here().dtype(torch::kDouble))},
                     {"label", torch::randint(0, 3, {6}, here().dtype(torch::kLong))}},
                    6);
  const auto collected = [&](const StepPlan& plan) {
    for (at::Tensor& buffer : network.buffers()) buffer.zero_();
    const NormalizingStep step;
    accumulate_gradient(step, {network, plan.numerics, at::Device(test_device())}, batch, 6, plan,
                        {7, 1}, {});
    std::vector<at::Tensor> buffers;
    for (const at::Tensor& buffer : network.buffers()) buffers.push_back(buffer.clone());
    return buffers;
  };
  const std::vector<at::Tensor> once = collected({}), twice = collected(two_passes(2));
  for (std::size_t i = 0; i < once.size(); ++i) EXPECT_TRUE(twice[i].equal(once[i])) << i;
}

}  // namespace
}  // namespace stages
