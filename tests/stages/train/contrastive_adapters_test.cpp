// Tests train.contrastive on a CLIP model with adapters.
// tests/stages/contrastive/train_contrastive_test.cpp tests full training.

#include <gmock/gmock.h>
#include <torch/nn/module.h>

#include "runner/shared/stage/stage.h"
#include "stages/model/clip_network.h"
#include "tests/support/contrastive_run.h"
#include "tests/support/refused.h"

namespace stages {
namespace {

using testing::Contains;
using testing::HasSubstr;
using Json = nlohmann::ordered_json;

constexpr const char* kOfTexts = R"(text_model\..*\.(q|v)_proj)";
constexpr const char* kOfImages = R"(vision_model\..*\.(q|v)_proj)";

/// A training run of such adapters, without dropout.
ContrastiveRun adapter_run(const Json& targets, const char* class_head = "linear") {
  ContrastiveRun training;
  Json model = Json::parse(kTinyClip);
  model["class_head"] = class_head;
  model["adapters"] = {{"targets", targets}, {"dropout", 0}};
  training.model = model_of(kModelClip, model);
  training.options["optimizer"]["learning_rate"] = 0.5;
  training.options["monitor"] = "recall_at_1";
  return training;
}

std::map<std::string, at::Tensor> numbers_of(const torch::nn::Module& network) {
  std::map<std::string, at::Tensor> numbers;
  for (const auto& item : network.named_parameters())
    numbers[item.key()] = item.value().detach().clone();
  return numbers;
}

TEST(ContrastiveAdapters, LearnToMatchImagesAndCaptions) {
  ContrastiveRun training =
      adapter_run({"q_proj", "v_proj", "fc1", "text_projection", "visual_projection"});
  training.options.update(Json::parse(
      R"({"epochs": 60, "batch_size": 12, "monitor": "zero_shot_accuracy", "loss": {"targets": "same_caption"}})"));
  training.options["optimizer"] = Json::parse(R"({"kind": "adamw", "learning_rate": 0.01})");
  training.run();
  EXPECT_EQ(training.context.values("validation/recall_at_1").back(), 1);
  EXPECT_EQ(training.context.values("validation/accuracy").back(), 1);
}

TEST(ContrastiveAdapters, OtherWeightsStayUnchanged) {
  for (const Json& targets : {Json{"q_proj", "v_proj"}, Json(kOfTexts), Json(kOfImages)}) {
    ContrastiveRun training = adapter_run(targets);
    const auto before = numbers_of(*training.model->build(training.train->describe(), 0));
    const auto trained = training.run();
    for (const auto& [name, tensor] : numbers_of(*trained->network)) {
      const bool is_trained = name.find(".lora_") != name.npos || name.starts_with("class_head.");
      EXPECT_EQ(!tensor.cpu().equal(before.at(name)), is_trained) << targets << name;
    }
  }
}

/// The embeddings of a tower without adapters have no gradient, which must not cause an error.
TEST(ContrastiveAdapters, TwoPassesMatchTheWholeBatchForAnyTrainedTower) {
  for (const char* head : {"linear", "none"}) {
    for (const Json& targets : {Json{"q_proj", "v_proj"}, Json(kOfTexts), Json(kOfImages)}) {
      ContrastiveRun whole = adapter_run(targets, head), cut = adapter_run(targets, head);
      cut.policy->micro_batch = 3;
      cut.policy->two_pass = true;
      cut.policy->activation_checkpointing.blocks = true;
      EXPECT_LT(difference(*cut.run(), *whole.run()), 1e-5) << targets << head;
    }
  }
}

TEST(ContrastiveAdapters, EverySplitIsCertified) {
  for (const Json& targets : {Json{"q_proj", "v_proj"}, Json(kOfTexts), Json(kOfImages)}) {
    ContrastiveRun training = adapter_run(targets);
    training.policy->micro_batch = 3;
    training.policy->two_pass = true;
    training.policy->activation_checkpointing.blocks = true;
    const auto planning = training.plan(/*certifies=*/true);
    ASSERT_TRUE(planning->certified);
    EXPECT_EQ(planning->certified->refused, "");
    EXPECT_TRUE(planning->certified->holds()) << targets;
    const auto network = training.model->build(training.train->describe(), 0);
    EXPECT_EQ(planning->certified->parameters.size(), trained_parameters(*network).size());
  }
}

std::int64_t bytes_of(const runner::MemoryPlan& plan, const std::string& owner) {
  const auto found = std::ranges::find(plan.owners, owner, &runner::NamedBytes::name);
  return found == plan.owners.end() ? -1 : found->bytes;
}

TEST(ContrastiveAdapters, PlanHasGradientsAndStateOfOnlyTheAdapters) {
  ContrastiveRun all, adapters = adapter_run({"q_proj", "v_proj"});
  for (ContrastiveRun* one : {&all, &adapters})
    one->options["optimizer"] = Json::parse(R"({"kind": "adamw"})");
  const auto whole = all.plan(), frozen = adapters.plan();
  const auto trained = trained_parameters(*adapters.model->build(adapters.train->describe(), 0));
  std::int64_t bytes = 0;
  for (const auto& [name, tensor] : trained) bytes += static_cast<std::int64_t>(tensor.nbytes());
  const auto steps = 4 * static_cast<std::int64_t>(trained.size());  // one float each
  EXPECT_EQ(bytes_of(*frozen->planned, "optimizer_state"), 2 * bytes + steps);
  EXPECT_LT(frozen->planned->needed, whole->planned->needed);
}

TEST(ContrastiveAdapters, FactorsMayOmitFrozenParts) {
  ContrastiveRun training = adapter_run(kOfImages);
  training.options["learning_rate_factors"] = {{"class_head", 10}};
  training.run();
  EXPECT_FALSE(training.context.values("train/learning_rate/class_head").empty());
  training.options["learning_rate_factors"] = {{"text", 10}};
  EXPECT_REFUSED(training.plan(), kOptionConflict, "/learning_rate_factors/text");
}

}  // namespace
}  // namespace stages
