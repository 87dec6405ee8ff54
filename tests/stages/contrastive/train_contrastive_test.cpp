#include <gmock/gmock.h>
#include <torch/types.h>

#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/stage.h"
#include "stages/artifact/model.h"
#include "stages/memory/policy.h"
#include "stages/model/clip_network.h"
#include "stages/stages.h"
#include "stages/weights/weights.h"
#include "tests/support/contrastive_run.h"
#include "tests/support/refused.h"

namespace stages {
namespace {

using testing::HasSubstr;
using Json = nlohmann::ordered_json;

TEST(Contrastive, LearnsToMatchImagesAndCaptions) {
  ContrastiveRun training;
  training.options.update(Json::parse(
      R"({"epochs": 40, "batch_size": 12, "optimizer": {"kind": "adamw", "learning_rate": 0.01},
                                          "monitor": "zero_shot_accuracy", "loss": {"targets": "same_caption"}})"));
  training.options["optimizer"] = Json::parse(R"({"kind": "adamw", "learning_rate": 0.01})");
  training.run();
  EXPECT_EQ(training.context.values("validation/recall_at_1").back(), 1);
  EXPECT_EQ(training.context.values("validation/zero_shot_accuracy").back(), 1);
  EXPECT_EQ(training.context.values("validation/accuracy").back(), 1);
}

TEST(Contrastive, ModelWithoutAClassHeadLearnsFromCaptions) {
  Json clip = Json::parse(kTinyClip);
  clip["class_head"] = "none";
  for (const std::int64_t micro_batch : {0, 3}) {
    ContrastiveRun training;
    training.model = model_of(kModelClip, clip);
    training.options["monitor"] = "zero_shot_accuracy";
    training.policy->two_pass = micro_batch > 0;
    if (micro_batch > 0) training.policy->micro_batch = micro_batch;
    training.run();
    EXPECT_EQ(training.context.values("validation/zero_shot_accuracy").size(), 2u) << micro_batch;
    EXPECT_TRUE(training.context.values("validation/accuracy").empty()) << micro_batch;
  }
}

TEST(Contrastive, ValidationPromptsUseClassWords) {
  ContrastiveRun training;
  training.options["monitor"] = "zero_shot_accuracy";
  training.train->words = {"a color", "a color", "a color"};
  training.run();
  // Of equal texts, the first counts as nearest: it is right for a third of the images.
  EXPECT_THAT(training.context.values("validation/zero_shot_accuracy"), testing::Each(3.0 / 9));
}

TEST(Contrastive, TwoPassesMatchTheWholeBatchButAccumulationDoesNot) {
  for (const char* targets : {"diagonal", "same_caption", "same_class"}) {
    ContrastiveRun whole, cut, accumulated;
    for (ContrastiveRun* one : {&whole, &cut, &accumulated})
      one->options["loss"] = {{"targets", targets}};
    cut.policy->micro_batch = 3;
    cut.policy->two_pass = true;
    accumulated.options["batch_size"] = 4;
    accumulated.options["gradient_accumulation_steps"] = 2;
    accumulated.options["loss"]["negatives"] = "micro_batch";
    const auto expected = whole.run();
    EXPECT_LT(difference(*cut.run(), *expected), 1e-6) << targets;
    EXPECT_GT(difference(*accumulated.run(), *expected), 1e-4) << targets;
  }
}

ContrastiveRun sigmoid_run(const Json& more_loss = Json::object()) {
  ContrastiveRun training;
  Json clip = Json::parse(kTinyClip);
  clip["logit_scale"] = 2.3026;
  clip["logit_bias"] = -10;
  training.model = model_of(kModelClip, clip);
  training.options["loss"] = {{"function", "sigmoid"}};
  training.options["loss"].update(more_loss);
  return training;
}

TEST(Contrastive, SigmoidLossLearnsToMatchImagesAndCaptions) {
  ContrastiveRun training = sigmoid_run({{"targets", "same_caption"}});
  training.options.update(
      Json::parse(R"({"epochs": 60, "batch_size": 12, "monitor": "zero_shot_accuracy"})"));
  training.options["optimizer"] = Json::parse(R"({"kind": "adamw", "learning_rate": 0.01})");
  const auto trained = training.run();
  EXPECT_EQ(training.context.values("validation/zero_shot_accuracy").back(), 1);
  EXPECT_NE(weights(*trained->network).at("logit_bias").item<float>(), -10);
}

TEST(Contrastive, TwoPassSigmoidLossMatchesTheWholeBatch) {
  for (const char* targets : {"diagonal", "same_caption", "same_class"}) {
    ContrastiveRun whole = sigmoid_run({{"targets", targets}}),
                   cut = sigmoid_run({{"targets", targets}});
    cut.policy->micro_batch = 3;
    cut.policy->two_pass = true;
    EXPECT_LT(difference(*cut.run(), *whole.run()), 1e-6) << targets;
    const auto planning = cut.plan(/*certifies=*/true);
    ASSERT_TRUE(planning->certified);
    EXPECT_EQ(planning->certified->refused, "");
    EXPECT_TRUE(planning->certified->holds()) << planning->certified->compared;
    EXPECT_EQ(planning->certified->parameters.size(),
              weights(*cut.model->outline(cut.train->describe())).size());
  }
}

TEST(Contrastive, SigmoidLossNeedsAModelWithABias) {
  ContrastiveRun training;
  training.options["loss"] = {{"function", "sigmoid"}};
  EXPECT_REFUSED(training.plan(), kOptionConflict, "/loss/function", "adds a bias");
}

TEST(Contrastive, AccumulationUsesTwoPassesIfAllowed) {
  ContrastiveRun whole, declared;
  declared.options["batch_size"] = 4;
  declared.options["gradient_accumulation_steps"] = 2;
  declared.policy->two_pass_is_open = true;
  declared.policy->allow = Allow::kExact;
  const auto stage = declared.stage();
  PlanningContext planning;
  stage->plan(declared.inputs(), planning);
  EXPECT_THAT(planning.planned.value().step.dump(), HasSubstr(R"("two_pass":true)"));
  const runner::Outputs outputs = stage->run(declared.inputs(), declared.context);
  const auto trained =
      runner::Inputs({{"checkpoint", {outputs.at("checkpoint")}}}).get<Checkpoint>("checkpoint");
  EXPECT_LT(difference(*trained, *whole.run()), 1e-6);
  EXPECT_THAT(declared.context.said,
              testing::Contains(HasSubstr("Effective batch size: 8 (2 x 4)")));
}

TEST(Contrastive, BalancingClassesTwiceIsReported) {
  const auto says = [](const char* sampling, bool weighs) {
    ContrastiveRun training;
    training.options["sampling"] = sampling;
    training.options["loss"] = {{"balance_classes", weighs}};
    training.run();
    return testing::Value(
        training.context.said,
        testing::Contains(HasSubstr("sampling: balanced and loss.balance_classes both")));
  };
  EXPECT_TRUE(says("balanced", true));
  EXPECT_FALSE(says("balanced", false));
  EXPECT_FALSE(says("as_is", true));
}

TEST(Contrastive, AccumulationReportsThatTheLossDiffers) {
  ContrastiveRun training;
  training.options["batch_size"] = 4;
  training.options["gradient_accumulation_steps"] = 2;
  training.options["loss"] = {{"negatives", "micro_batch"}};
  training.run();
  EXPECT_THAT(training.context.said,
              testing::Contains(HasSubstr("each image is compared only with the 3 others")));
}

/// Parts of a different size would compare different pairs, so the loss would differ.
TEST(Contrastive, AlternativesKeepTheGroupsThatAreComparedSeparately) {
  for (const char* negatives : {"micro_batch", "batch"}) {
    ContrastiveRun training;
    training.options["batch_size"] = 4;
    training.options["gradient_accumulation_steps"] = 4;
    training.options["loss"] = {{"negatives", negatives}};
    training.policy->two_pass = true;
    PlanningContext planning;
    planning.asked.wants_alternatives = true;
    training.stage()->plan(training.inputs(), planning);
    std::string texts;
    for (const auto& one : planning.planned->alternatives)
      texts += testing::PrintToString(one.overrides) + "\n";
    const bool changes_parts = texts.find("train.batch_size=16") != texts.npos;
    EXPECT_EQ(changes_parts, std::string_view(negatives) == "batch") << texts;
    EXPECT_THAT(texts, HasSubstr("memory.activation_checkpointing=block"));
  }
}

TEST(Contrastive, PlanRejectsWarmupLongerThanTraining) {
  ContrastiveRun training;
  training.options["schedule"] = {{"kind", "warmup_cosine"}, {"warmup_steps", 6}};
  EXPECT_REFUSED(training.plan(), kOptionConflict, "/schedule/warmup_steps", "6 steps");
  training.options["schedule"]["warmup_steps"] = 5;
  training.plan();
  training.train = std::make_shared<CaptionedImages>(0);
  EXPECT_REFUSED(training.plan(), kTooFewSamples, "");
}

TEST(Contrastive, EverySplitIsCertified) {
  for (const char* loss :
       {R"({"targets": "diagonal"})", R"({"targets": "same_class", "label_smoothing": 0.1})"}) {
    ContrastiveRun training;
    training.options["loss"] = Json::parse(loss);
    training.policy->micro_batch = 3;
    training.policy->two_pass = true;
    training.policy->activation_checkpointing.blocks = true;
    const auto planning = training.plan(/*certifies=*/true);
    ASSERT_TRUE(planning->certified);
    EXPECT_EQ(planning->certified->refused, "");
    EXPECT_TRUE(planning->certified->holds()) << planning->certified->compared;
    EXPECT_EQ(planning->certified->parameters.size(),
              weights(*training.model->outline(training.train->describe())).size());
  }
}

TEST(Contrastive, SeparatelyComparedGroupsAreCertifiedWhole) {
  for (const bool two_pass : {false, true}) {
    ContrastiveRun training;
    training.options["loss"] =
        Json::parse(R"({"negatives": "micro_batch", "targets": "same_caption"})");
    training.options["batch_size"] = 4;
    training.options["gradient_accumulation_steps"] = 3;
    training.policy->two_pass = two_pass;
    const auto planning = training.plan(/*certifies=*/true);
    ASSERT_TRUE(planning->certified);
    EXPECT_EQ(planning->certified->refused, "");
    EXPECT_TRUE(planning->certified->holds()) << planning->certified->compared;
    EXPECT_THAT(planning->certified->compared,
                HasSubstr(two_pass ? "micro_batch 2, two_pass on against the whole"
                                   : "micro_batch 4 against the whole batch of 6"));
  }
}

TEST(Contrastive, TrimmingAndEncodingOnceDoNotChangeTheResult) {
  ContrastiveRun economical, literal;
  literal.options["trim_captions"] = false;
  literal.options["encode_captions_once"] = false;
  EXPECT_LT(difference(*economical.run(), *literal.run()), 1e-6);
}

TEST(Contrastive, EncodingOnceDoesNotChangeEqualCaptions) {
  for (const char* negatives : {"batch", "micro_batch"}) {
    ContrastiveRun once, apart;
    for (ContrastiveRun* one : {&once, &apart}) {
      one->options["loss"] = {{"targets", "same_caption"}, {"negatives", negatives}};
      one->options["batch_size"] = 4;
      one->options["gradient_accumulation_steps"] = 2;
      one->policy->two_pass = true;
    }
    apart.options["encode_captions_once"] = false;
    EXPECT_LT(difference(*once.run(), *apart.run()), 1e-6) << negatives;
    for (const char* metric : {"train/epoch_recall_at_1", "validation/recall_at_1"})
      EXPECT_EQ(once.context.values(metric), apart.context.values(metric))
          << negatives << " " << metric;
  }
}

TEST(Contrastive, SeparatelyComparedGroupsGiveTheSameResultInTwoPasses) {
  ContrastiveRun one_pass, two_passes;
  for (ContrastiveRun* one : {&one_pass, &two_passes}) {
    one->options["loss"] = {{"negatives", "micro_batch"}};
    one->options["batch_size"] = 2;
    one->options["gradient_accumulation_steps"] = 4;
  }
  two_passes.policy->two_pass = true;
  EXPECT_LT(difference(*one_pass.run(), *two_passes.run()), 1e-6);
  for (const char* metric : {"train/epoch_recall_at_1", "validation/recall_at_1"}) {
    ASSERT_EQ(one_pass.context.values(metric).size(), 2u) << metric;
    EXPECT_EQ(one_pass.context.values(metric), two_passes.context.values(metric)) << metric;
  }
}

TEST(Contrastive, EveryWeightHasAGradientInHalfPrecision) {
  ContrastiveRun training;
  training.options.update(Json::parse(R"({"epochs": 1, "batch_size": 23})"));
  training.policy->precision.base = Precision::kBf16;
  const NamedTensors before =
      weights(*training.model->build(training.train->describe(), training.context.facts.seed));
  const NamedTensors after = weights(*training.run()->network);
  for (const auto& [name, tensor] : before) {
    const bool has_no_effect = name.ends_with("k_proj.bias");  // the softmax cancels it
    if (!has_no_effect) EXPECT_FALSE(tensor.equal(after.at(name).cpu())) << name;
  }
}

TEST(Contrastive, ZeroFactorsFreezeParts) {
  ContrastiveRun training;
  training.options["learning_rate_factors"] = {{"text", 0}, {"logit_scale", 0}};
  const NamedTensors before =
      weights(*training.model->build(training.train->describe(), training.context.facts.seed));
  const NamedTensors after = weights(*training.run()->network);
  for (const auto& [name, tensor] : before) {
    const bool is_frozen = name.starts_with("text_") || name == "logit_scale";
    if (is_frozen) EXPECT_TRUE(tensor.equal(after.at(name).cpu())) << name;
  }
  EXPECT_FALSE(
      before.at("visual_projection.weight").equal(after.at("visual_projection.weight").cpu()));
}

TEST(Contrastive, FrozenEpochsTrainOnlyTheClassHead) {
  ContrastiveRun training;
  training.options["epochs"] = 2;
  training.options["frozen_epochs"] = 2;
  const NamedTensors before =
      weights(*training.model->build(training.train->describe(), training.context.facts.seed));
  const NamedTensors after = weights(*training.run()->network);
  for (const auto& [name, tensor] : before)
    EXPECT_EQ(tensor.equal(after.at(name).cpu()), !name.starts_with("class_head")) << name;
  ContrastiveRun longer;
  longer.options["epochs"] = 3;
  longer.options["frozen_epochs"] = 2;
  longer.options["keep"] = "last";
  EXPECT_FALSE(before.at("visual_projection.weight")
                   .equal(weights(*longer.run()->network).at("visual_projection.weight").cpu()));
}

TEST(Contrastive, ClassWeightsUseFrequenciesOfTheWholeBatch) {
  ContrastiveRun training;
  training.train = std::make_shared<CaptionedImages>(
      10, std::vector<std::string>{"red", "green", "blue", "gray"});
  training.validation = std::make_shared<CaptionedImages>(
      4, std::vector<std::string>{"red", "green", "blue", "gray"});
  training.options["epochs"] = 1;
  training.options["batch_size"] = 3;
  const auto network =
      training.model->build(training.train->describe(), training.context.facts.seed);
  const SampleOrder order = training.train->epoch_order(training.context.facts.seed, 0);
  double sum = 0, weights = 0;
  for (std::int64_t i = 0; i < 3; ++i) {
    const NamedTensors sample = *training.train->sample(0, order[i]);
    const at::Tensor label = sample.at("label").unsqueeze(0);
    const double weight =
        10.0 /
        (4 * (label.item<std::int64_t>() < 2 ? 3 : 2));  // the classes have 3, 3, 2 and 2 samples
    const at::Tensor logits =
        training.model->forward(*network, {{"image", sample.at("image").unsqueeze(0)}})
            .at("logits");
    sum += weight * torch::nll_loss(logits.log_softmax(1), label).item<double>();
    weights += weight;
  }
  training.run();
  EXPECT_NEAR(training.context.values("train/class").front(), sum / weights, 1e-5);
}

TEST(Contrastive, LogitScaleStaysBelowItsLimit) {
  ContrastiveRun training;
  Json clip = Json::parse(kTinyClip);
  clip["maximum_logit_scale"] = 2.66;
  clip["logit_scale"] = 2.6592;
  training.model = model_of(kModelClip, clip);
  training.options["epochs"] = 20;
  training.options["optimizer"] = Json::parse(R"({"kind": "adamw", "learning_rate": 0.01})");
  const auto trained = training.run();
  EXPECT_LE(weights(*trained->network).at("logit_scale").item<float>(), 2.66f);
}

TEST(Contrastive, InvalidCombinationsAreRejectedBeforeTheRun) {
  ContrastiveRun long_captions, empty, head, other_model;
  long_captions.train->caption = "a photo that is taken on a rainy day of a ";
  EXPECT_REFUSED(long_captions.plan(), kBadAnnotations, "", "3 captions", "32 tokens");
  Json clip = Json::parse(kTinyClip);
  clip["class_head"] = "none";
  head.model = model_of(kModelClip, clip);
  EXPECT_REFUSED(head.plan(), kOptionConflict, "/monitor", "monitor: accuracy");
  other_model.model =
      model_of(kModelClipVision, Json::parse(R"({"hidden_size": 8, "intermediate_size": 16,
      "num_hidden_layers": 1, "num_attention_heads": 2, "patch_size": 4})"));
  EXPECT_REFUSED(other_model.plan(), kOptionConflict, "", "captions");
  EXPECT_REFUSED(contrastive_stage(Json::parse(R"({"loss": {"contrastive_weight": 0}})")),
                 kOptionConflict, "/train/loss/contrastive_weight", "weight 0");
  EXPECT_REFUSED(contrastive_stage(Json::parse(R"({"loss": {"negatives": "micro_batch"}})")),
                 kOptionConflict, "/train/loss/negatives", "gradient_accumulation_steps");
}

TEST(Contrastive, LongCaptionsAreTruncatedOnRequest) {
  ContrastiveRun training;
  Json clip = Json::parse(kTinyClip);
  clip["tokenizer"]["too_long"] = "cut";
  training.model = model_of(kModelClip, clip);
  training.train->caption = "a photo that is taken on a rainy day of a ";
  training.run();
  EXPECT_THAT(training.context.said,
              testing::Contains(HasSubstr("3 captions are longer than the text tower's context")));
}

TEST(Contrastive, TwoPassMemoryDoesNotGrowWithTheBatch) {
  const auto peak = [](std::int64_t batch) {
    ContrastiveRun training;
    training.train = std::make_shared<CaptionedImages>(1024);
    training.options["batch_size"] = batch;
    training.policy->micro_batch = 32;
    training.policy->two_pass = true;
    const runner::MemoryPlan plan = training.plan()->planned.value();
    constexpr std::int64_t kOfPair = 3 * 8 * 8 * 4 + 8 * 3;  // image, label, caption and its row
    return plan.live - batch * kOfPair;
  };
  // Only the embeddings, of six values each, the logits and their gradients grow with the batch.
  const std::int64_t small = peak(64), large = peak(512);
  EXPECT_LT(large - small, (512 - 64) * 600);
  EXPECT_LT(large - small, 512 * 512 * 4);
}

}  // namespace
}  // namespace stages
