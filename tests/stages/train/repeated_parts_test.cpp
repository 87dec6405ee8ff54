// Checks that a plan that repeats the record of equal micro-batches equals one that computes all of
// them.

#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include "stages/stages.h"
#include "stages/train/classification_loss.h"
#include "stages/train/plan_training.h"
#include "tests/support/model_of.h"
#include "tests/support/noise_images.h"
#include "tests/support/planning_context.h"
#include "tests/support/small_backbone.h"

namespace stages {
namespace {

Json tower() {
  return Json::parse(
      R"({"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
                         "patch_size": 8, "attention_dropout": 0.2, "drop_path": 0.3, "dropout": 0.1})");
}

std::shared_ptr<const Model> adapters() {
  Json backbone = tower();
  for (const char* key : {"attention_dropout", "drop_path", "dropout"}) backbone.erase(key);
  backbone["projection_dim"] = 16;
  return model_of(kModelLora, {{"backbone", backbone}, {"rank", 2}, {"dropout", 0.1}});
}

/// A convolution, BatchNorm and a classifier.
class NormalizedNetwork final : public torch::nn::Module {
 public:
  explicit NormalizedNetwork(const at::TensorOptions& options)
      : convolution_(register_parameter("convolution", torch::ones({8, 3, 3, 3}, options))),
        weight_(register_parameter("weight", torch::ones({8}, options))),
        bias_(register_parameter("bias", torch::zeros({8}, options))),
        head_(register_parameter("head", torch::ones({3, 8}, options))),
        mean_(register_buffer("mean", torch::zeros({8}, options))),
        variance_(register_buffer("variance", torch::ones({8}, options))) {}
  at::Tensor forward(const at::Tensor& images) {
    const at::Tensor x = torch::conv2d(images, convolution_);
    const at::Tensor y =
        torch::batch_norm(x, weight_, bias_, mean_, variance_, is_training(), 0.1, 1e-5, false);
    return torch::linear(y.relu().mean({2, 3}), head_);
  }

 private:
  at::Tensor convolution_, weight_, bias_, head_, mean_, variance_;
};

class NormalizedModel final : public Model {
 public:
  std::shared_ptr<torch::nn::Module> build(const DatasetDescription&,
                                           std::uint64_t) const override {
    return std::make_shared<NormalizedNetwork>(torch::kFloat);
  }
  std::shared_ptr<torch::nn::Module> outline(const DatasetDescription&) const override {
    return std::make_shared<NormalizedNetwork>(at::TensorOptions(torch::kMeta));
  }
  NamedTensors forward(torch::nn::Module& network, const NamedTensors& inputs) const override {
    return {{"logits", dynamic_cast<NormalizedNetwork&>(network).forward(inputs.at("image"))}};
  }
  bool mixes_samples() const override { return true; }
};

class Classifying final : public TrainingStep {
 public:
  explicit Classifying(const Model& model, Coupling coupling = Coupling::kPerSample)
      : model_(model), coupling_(coupling) {}
  std::vector<LossTerm> terms() const override { return {{"cross_entropy", coupling_}}; }
  bool mixes_samples() const override { return model_.mixes_samples(); }
  NamedTensors encode(torch::nn::Module& network, const Batch& part) const override {
    return model_.forward(network, part.tensors());
  }
  NamedTensors loss(const NamedTensors& encoded, const Batch& part) const override {
    ++losses;
    return {{"cross_entropy", cross_entropy_sum(encoded.at("logits"), part["label"], 0)}};
  }
  NamedTensors score(const NamedTensors& encoded, const Batch& part) const override {
    return {{"correct", encoded.at("logits").argmax(1).eq(part["label"]).sum()}};
  }
  mutable int losses = 0;  ///< computed so far

 private:
  const Model& model_;
  const Coupling coupling_;
};

class RepeatedParts : public testing::Test {
 protected:
  RepeatedParts() {
    policy.pointer = "/memory";
    options.epochs = 2;
    options.batch_size = 16;
    options.optimizer = SgdOptions{.learning_rate = 1e-3, .momentum = 0.9};
    options.monitor = "loss";
    options.keep = Keep::kBest;
    context.asked.budget = {"a test", 1 << 30};
  }
  runner::MemoryPlan plan(Repeated micro_batches) {
    const DatasetDescription description = data.describe();
    const Classifying step(*model, coupling);
    const TrainingToPlan training{.step = step,
                                  .model = *model,
                                  .data = description,
                                  .network_data = description,
                                  .validation = &description,
                                  .loader = data.loader(),
                                  .options = options,
                                  .policy = policy};
    runner::MemoryPlan result = plan_training(training, context, micro_batches).plan;
    losses = step.losses;
    return result;
  }
  /// Compares the plans for micro-batches of these sizes; 0 is the whole batch. By default, one
  /// size is the smallest possible, and one leaves a smaller last micro-batch.
  void expect_the_same(const std::vector<int>& sizes = {0, 1, 3}) {
    for (int micro_batch : sizes) {
      if (model->mixes_samples() && micro_batch == 1) micro_batch = 2;
      policy.micro_batch =
          micro_batch > 0 ? std::optional<std::int64_t>(micro_batch) : std::nullopt;
      options.accumulated_micro_batch.reset();
      if (model->mixes_samples())
        options.accumulated_micro_batch = policy.micro_batch;  // set explicitly
      for (const std::string& gpu : {"", "NVIDIA L4"}) {
        context.facts.device = gpu.empty() ? "cpu" : "cuda:0";
        context.asked.device_model = gpu;
        runner::MemoryPlan noted = plan(Repeated::kNoted), computed = plan(Repeated::kComputed);
        EXPECT_EQ(noted.live, computed.live) << micro_batch << gpu;
        EXPECT_EQ(noted.reserved, computed.reserved) << micro_batch << gpu;
        EXPECT_EQ(noted.flops, computed.flops) << micro_batch << gpu;
        EXPECT_EQ(noted.operations, computed.operations) << micro_batch << gpu;
        // The order in which autocast drops its casts depends on their addresses, and so does the
        // curve between two peaks.
        if (policy.precision.base != Precision::kFp32) noted.curve = computed.curve = {};
        EXPECT_EQ(to_json(noted).dump(1), to_json(computed).dump(1)) << micro_batch << gpu;
      }
    }
  }

  NoiseImages data{40, 32};
  std::shared_ptr<const Model> model = model_of(kModelClipVision, tower());
  Coupling coupling = Coupling::kPerSample;
  TrainerOptions options;
  MemoryPolicy policy;
  PlanningContext context;
  int losses = 0;  // of the last plan
};

TEST_F(RepeatedParts, PlanIsTheSame) { expect_the_same({1, 3, 4, 5}); }

TEST_F(RepeatedParts, PlanIsTheSameWithActivationCheckpointing) {
  policy.activation_checkpointing = {.blocks = true};
  expect_the_same();
}

TEST_F(RepeatedParts, PlanIsTheSameInTwoPasses) {
  policy.two_pass = true;
  coupling = Coupling::kWholeBatch;
  expect_the_same();
}

TEST_F(RepeatedParts, PlanIsTheSameInHalfPrecisionWithAnAverageAndClipping) {
  policy.precision.base = Precision::kFp16;
  options.average = WeightAverageOptions{.decay = 0.9};
  options.gradient_clip_norm = 1;
  expect_the_same();
}

TEST_F(RepeatedParts, PlanIsTheSameUnderEveryOptimizer) {
  const AdamOptions adam{.learning_rate = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8};
  AdamOptions with_maximum = adam, decoupled = adam;
  with_maximum.amsgrad = true;
  decoupled.decoupled = true;
  for (const OptimizerOptions& optimizer : std::initializer_list<OptimizerOptions>{
           SgdOptions{.learning_rate = 1e-3}, adam, with_maximum, decoupled}) {
    options.optimizer = optimizer;
    expect_the_same();
  }
}

/// A search over policies that differ only in how the optimizer works computes each batch once.
TEST_F(RepeatedParts, PlansOfPoliciesWithTheSameGradientsAreTheSame) {
  options.optimizer =
      AdamOptions{.learning_rate = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8};
  context.facts.device = "cuda:0";
  context.asked.device_model = "NVIDIA L4";
  const DatasetDescription description = data.describe();
  const Classifying step(*model);
  const TrainingToPlan training{.step = step,
                                .model = *model,
                                .data = description,
                                .network_data = description,
                                .loader = data.loader(),
                                .options = options,
                                .policy = policy};
  std::vector<MemoryPolicy> policies(6, policy);
  policies[0].optimizer_in_backward = true;
  policies[2].offloads_optimizer = true;
  policies[3].allocator.expandable_segments = true;
  policies[4].sharding = Sharding::kParameters;  // without effect: there is one rank
  policies[5].optimizer_in_backward = policies[5].offloads_optimizer = true;
  const auto planned = [&](Repeated micro_batches) {
    step.losses = 0;
    const PolicySearch search = policy_search(training, /*budget=*/0, context, micro_batches);
    std::vector<std::string> plans;
    for (const MemoryPolicy& one : policies)
      plans.push_back(to_json(search.trace(one).plan).dump(1));
    return plans;
  };
  const std::vector<std::string> noted = planned(Repeated::kNoted);
  EXPECT_EQ(step.losses, 2 * 3 + 2) << "batches of 16, 8 and 16 samples, or one of each size";
  EXPECT_EQ(noted, planned(Repeated::kComputed));
  EXPECT_EQ(step.losses, 5 * 3) << "policies 1 and 4 are the same";
  EXPECT_EQ(noted[4], noted[1]);
  EXPECT_NE(noted[3], noted[1]);
  EXPECT_NE(noted[2], noted[1]);
}

TEST_F(RepeatedParts, PlanOfAdaptersIsTheSame) {
  model = adapters();
  expect_the_same();
}

TEST_F(RepeatedParts, PlanOfANetworkWithBatchNormIsTheSame) {
  model = std::make_shared<NormalizedModel>();
  expect_the_same();
}

TEST_F(RepeatedParts, PlanOfEveryConvolutionalNetworkIsTheSame) {
  for (const char* architecture :
       {"seresnext50_32x4d", "resnet50", "densenet121", "efficientnet_b2", "mobilenetv2_100"}) {
    SCOPED_TRACE(architecture);
    model = model_of(kModelCnn, {{"architecture", architecture}});
    expect_the_same({0, 5});
  }
}

TEST_F(RepeatedParts, PlanOfAProbeIsTheSame) {
  Json backbone = tower();
  for (const char* key : {"attention_dropout", "drop_path", "dropout"}) backbone.erase(key);
  backbone["projection_dim"] = 16;
  model = model_of(kModelLinearProbe, {{"backbone", backbone}});
  expect_the_same();
}

TEST_F(RepeatedParts, PlanIsTheSameWithTheOptimizerInTheBackwardPass) {
  policy.optimizer_in_backward = true;
  for (const double momentum : {0.0, 0.9}) {
    options.optimizer = SgdOptions{.learning_rate = 1e-3, .momentum = momentum};
    expect_the_same({0});
  }
}

TEST_F(RepeatedParts, PlanOfShardedStateIsTheSame) {
  context.facts.ranks.size = 2;
  for (const Sharding sharding :
       {Sharding::kOptimizer, Sharding::kGradients, Sharding::kParameters}) {
    SCOPED_TRACE(static_cast<int>(sharding));
    policy.sharding = sharding;
    policy.activation_checkpointing = {.blocks = sharding == Sharding::kParameters};
    expect_the_same();
  }
}

TEST_F(RepeatedParts, ThreePartsAreComputed) {
  policy.micro_batch = 1;
  plan(Repeated::kNoted);
  const int few = losses;
  plan(Repeated::kComputed);
  // The plan computes three steps, one of which has the last 8 of 40 samples, and a validation. It
  // also computes them for the whole batch, to derive what micro_batch saves. The third step
  // equals the first.
  EXPECT_EQ(few, (2 * 3 + 1) + (2 + 1));
  EXPECT_EQ(losses, (2 * 16 + 8 + 1) + (3 + 1));
}

TEST_F(RepeatedParts, AlternativesAreTheSame) {
  context.asked.wants_alternatives = true;
  const runner::MemoryPlan noted = plan(Repeated::kNoted);
  EXPECT_GE(noted.alternatives.size(), 8U);
  EXPECT_EQ(to_json(noted).dump(1), to_json(plan(Repeated::kComputed)).dump(1));
}

}  // namespace
}  // namespace stages
