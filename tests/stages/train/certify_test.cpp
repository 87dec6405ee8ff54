#include "stages/train/certify.h"

#include <gmock/gmock.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include "stages/numerics/recomputable_module.h"
#include "stages/tensor/step_phase.h"
#include "tests/support/gradients.h"
#include "tests/support/planning_context.h"
#include "tests/support/tiny_training.h"

namespace stages {
namespace {

using runner::Certificate;
using testing::ElementsAre, testing::IsEmpty;

const ActivationCheckpointing kRecomputedBlocks{.blocks = true};

Certificate compared(const TrainingStep& step, torch::nn::Module& network, const StepPlan& plan) {
  return compare_gradients(step, network, ten_samples(), plan, 7);
}

TEST(CompareGradients, ExactPlansPass) {
  for (const Drops drops : kEveryDrop) {
    for (const StepPlan& plan :
         {StepPlan{.micro_batch = 3}, StepPlan{.activation_checkpointing = kRecomputedBlocks},
          StepPlan{
              .micro_batch = 4, .two_pass = true, .activation_checkpointing = kRecomputedBlocks}}) {
      DroppingNet net(drops);
      const Certificate certificate = compared(DroppingStep(), net, plan);
      EXPECT_TRUE(certificate.holds()) << certificate.compared << ": " << certificate.worst();
      EXPECT_EQ(certificate.parameters.size(), net.parameters().size());
      EXPECT_EQ(certificate.parameters[0].name, "first.weight");
    }
  }
}

TEST(CompareGradients, ReportsTheComparison) {
  DroppingNet net(Drops::kAll), dropping_nothing(Drops::kNothing);
  EXPECT_EQ(compared(DroppingStep(), net, {}).compared,
            "a repeated step against the whole batch of 10, with dropout");
  EXPECT_EQ(compared(DroppingStep(), dropping_nothing,
                     {.micro_batch = 3, .activation_checkpointing = kRecomputedBlocks})
                .compared,
            "micro_batch 3, activation_checkpointing block against the whole batch of 10; the "
            "network has no dropout");
  EXPECT_EQ(compared(DroppingStep(), net,
                     {.micro_batch = 3,
                      .two_pass = true,
                      .activation_checkpointing = {.modules = {"block", "block.mlp"}}})
                .compared,
            "micro_batch 3, two_pass on, activation_checkpointing [block, block.mlp] against the "
            "whole batch of 10, with dropout");
}

TEST(CompareGradients, LeavesTheNetworkUnchanged) {
  DroppingNet net(Drops::kAll);
  const at::Tensor weight = net.parameters()[0].detach().clone();
  compared(DroppingStep(), net, {.micro_batch = 3});
  EXPECT_TRUE(net.parameters()[0].equal(weight));
  for (const at::Tensor& parameter : net.parameters()) EXPECT_FALSE(parameter.grad().defined());
}

/// Weighs every micro-batch of a batch of ten, split by four, equally.
class MeanOfMeansStep final : public TinyStep {
 public:
  NamedTensors encode(torch::nn::Module& network, const Batch& part) const override {
    return DroppingStep().encode(network, part);
  }
  NamedTensors loss(const NamedTensors& encoded, const Batch& part) const override {
    const at::Tensor sum = TinyStep::loss(encoded, part).at("cross_entropy");
    const double parts = part.units() == 10 ? 1 : 3;
    return {{"cross_entropy", sum / static_cast<double>(part.units()) * 10 / parts}};
  }
};

TEST(CompareGradients, PlainMeanOfMicroBatchMeansFails) {
  DroppingNet net(Drops::kNothing);
  const Certificate certificate = compared(MeanOfMeansStep(), net, {.micro_batch = 4});
  EXPECT_FALSE(certificate.holds());
  EXPECT_GT(certificate.worst(), 1e-3);
  EXPECT_THAT(certificate.changed, ElementsAre("the loss"));
}

/// A product that uses a different mask in the backward pass, or that counts how often it was
/// computed.
class Unsteady final : public RecomputableModule {
 public:
  Unsteady(bool drops, bool counts) : drops_(drops), counts_(counts) {
    weight_ = register_parameter("weight",
                                 torch::linspace(-1, 1, 6, torch::kDouble).view({3, 2}).clone());
    times_ = register_buffer("times", torch::zeros({}, torch::kDouble));
  }
  bool is_block() const override { return true; }

 private:
  at::Tensor compute(const at::Tensor& x) const override {
    ++computed_;
    if (counts_) at::Tensor(times_).copy_(torch::full({}, static_cast<double>(computed_)));
    const at::Tensor y = torch::tanh(torch::linear(x, weight_));
    if (!drops_) return y;
    const std::uint64_t seed = current_phase() == StepPhase::kBackward ? 2 : 1;
    return y * torch::rand(y.sizes(), at::detail::createCPUGenerator(seed), torch::kDouble).gt(0.5);
  }
  const bool drops_, counts_;
  at::Tensor weight_, times_;
  mutable std::uint64_t computed_ = 0;
};

class UnsteadyStep final : public TinyStep {
 public:
  NamedTensors encode(torch::nn::Module& network, const Batch& part) const override {
    return {{"logits", dynamic_cast<Unsteady&>(network).forward(part["image"])}};
  }
};

TEST(CompareGradients, DifferentDropoutMaskDuringRecomputationFails) {
  Unsteady network(true, false);
  const Certificate certificate =
      compared(UnsteadyStep(), network, {.activation_checkpointing = kRecomputedBlocks});
  EXPECT_FALSE(certificate.holds());
  EXPECT_GT(certificate.worst(), 1e-3);
}

TEST(CompareGradients, ChangedBufferFails) {
  Unsteady network(false, true);
  const Certificate certificate = compared(UnsteadyStep(), network, {.micro_batch = 4});
  EXPECT_LT(certificate.worst(), Certificate::kLimit);
  EXPECT_THAT(certificate.changed, ElementsAre("the buffer times"));
  EXPECT_FALSE(certificate.holds());
}

/// Certifies TinyModel.
Certificate certified(const MemoryPolicy& policy, Coupling coupling = Coupling::kPerSample,
                      const std::vector<ParameterGroupOptions>& groups = {}) {
  TinyStep step;
  step.coupling = coupling;
  const DatasetDescription data = TinyDataset(30).describe();
  TrainerOptions options = tiny_options();
  options.parameter_groups = groups;
  PlanningContext context;
  return certify({.step = step,
                  .model = step.model,
                  .data = data,
                  .network_data = data,
                  .loader = {},
                  .options = options,
                  .policy = policy},
                 context);
}

TEST(Certify, UnshrinkableModelIsComparedAtFullSize) {
  MemoryPolicy policy;
  policy.micro_batch = 3;
  const Certificate certificate = certified(policy);
  EXPECT_TRUE(certificate.holds()) << certificate.refused << certificate.worst();
  EXPECT_EQ(certificate.compared,
            "micro_batch 2 against the whole batch of 5; the network has no dropout");
}

TEST(Certify, MicroBatchAboveTheBatchIsTheWholeBatch) {
  MemoryPolicy policy;
  policy.micro_batch = 8;
  EXPECT_EQ(certified(policy).compared,
            "a repeated step against the whole batch of 5; the network has no dropout");
}

TEST(Certify, InvalidPolicyIsRejectedWithTheReason) {
  MemoryPolicy policy;
  policy.micro_batch = 3;
  const Certificate certificate = certified(policy, Coupling::kWholeBatch);
  EXPECT_FALSE(certificate.holds());
  EXPECT_EQ(certificate.refused,
            "micro_batch 3 would split a batch of 8, but the loss 'cross_entropy' depends on the "
            "whole batch at once");
  EXPECT_THAT(certificate.parameters, IsEmpty());
}

TEST(Certify, FrozenParametersAreNotCompared) {
  MemoryPolicy policy;
  policy.micro_batch = 3;
  const std::size_t all = certified(policy).parameters.size();
  const Certificate certificate =
      certified(policy, Coupling::kPerSample, {{.match = {"**.bias"}, .frozen = true}});
  EXPECT_TRUE(certificate.holds()) << certificate.refused;
  EXPECT_LT(certificate.parameters.size(), all);
  EXPECT_EQ(
      certified(policy, Coupling::kPerSample, {{.match = {"no_such"}, .frozen = true}}).refused,
      "the pattern 'no_such' matches no parameter of the model");
}

TEST(Certify, TorchGeneratorIsUnchanged) {
  torch::manual_seed(1);
  const at::Tensor before = at::detail::getDefaultCPUGenerator().get_state();
  certified({});
  EXPECT_TRUE(at::detail::getDefaultCPUGenerator().get_state().equal(before));
}

TEST(CompareGradients, OptimizerModesGiveTheSameBits) {
  DroppingNet net(Drops::kAll);
  const at::Tensor weight = net.parameters()[0].detach().clone();
  const Certificate both =
      compared(DroppingStep(), net, {.offloads_optimizer = true, .optimizer_in_backward = true});
  EXPECT_TRUE(both.holds());
  EXPECT_EQ(
      both.compared,
      "offload optimizer, optimizer_in_backward true against the whole batch of 10, with dropout");
  EXPECT_TRUE(net.parameters()[0].equal(weight)) << "the steps are undone";
}

/// A product that differs each time it is computed.
class Unlike final : public torch::nn::Module {
 public:
  Unlike() {
    weight = register_parameter("weight",
                                torch::linspace(-1, 1, 6, torch::kDouble).view({3, 2}).clone());
  }
  at::Tensor weight;
};

class UnlikeStep final : public TinyStep {
 public:
  NamedTensors encode(torch::nn::Module& network, const Batch& part) const override {
    ++computed_;
    const at::Tensor& weight = dynamic_cast<Unlike&>(network).weight;
    return {{"logits", torch::linear(part["image"], weight) *
                           (weight.detach().sum() + static_cast<double>(computed_))}};
  }
  mutable std::int64_t computed_ = 0;
};

TEST(CompareGradients, DifferentWeightsAreReported) {
  Unlike network;
  const Certificate certificate = compared(UnlikeStep(), network, {.optimizer_in_backward = true});
  EXPECT_FALSE(certificate.holds());
  EXPECT_THAT(certificate.changed, testing::Contains("the weight weight after two steps"));
}

}  // namespace
}  // namespace stages
