#include "stages/model/text_head.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "stages/model/fine_tuned.h"
#include "stages/stages.h"
#include "stages/weights/weights.h"
#include "tests/support/planning_context.h"
#include "tests/support/recording_context.h"
#include "tests/support/refused.h"
#include "tests/support/saved_clip.h"
#include "tests/support/small_backbone.h"
#include "tests/support/stage_of.h"

namespace stages {
namespace {

const std::vector<std::string> kTemplates = {"a {name}.", "my {name}!"};

class TextHeadOf : public testing::Test {
 protected:
  Json options(const Json& more = Json::object()) const {
    return {
        {"backbone", clip_.backbone(more)}, {"head_start", "zero_shot"}, {"templates", kTemplates}};
  }
  at::Tensor pixels() const {
    std::vector<at::Tensor> all;
    for (std::int64_t i = 0; i < clip_.images().describe().size; ++i)
      all.push_back(clip_.images().sample(0, i)->at("image"));
    return torch::stack(all);
  }
  void expect_zero_shot(const runner::StageKind& kind) const {
    const torch::NoGradGuard no_graph;
    const auto model = model_of(kind, options());
    const auto network = model->build(clip_.images().describe(), 3);
    const at::Tensor logits = model->forward(*network, {{"image", pixels()}}).at("logits");
    const at::Tensor expected = clip_.zero_shot(pixels(), kTemplates);
    EXPECT_TRUE(torch::equal(logits.argmax(1), expected.argmax(1)));
    // Both sides multiply the same embeddings of length 1, and only the order of the factors
    // differs, so each of `width` products, all below the scale, is rounded at most twice more.
    const double width = static_cast<double>(network->named_parameters()["head.weight"].size(1)),
                 scale = expected.abs().max().item<double>() + 1;
    EXPECT_LE((logits - expected).abs().max().item<double>(),
              4 * width * scale * std::numeric_limits<float>::epsilon());
  }
  runner::Diagnostics refusal(const Json& changed) const {
    return refusals_of([&] {
      PlanningContext context;
      stage_of(kModelFull, changed)->plan(runner::Inputs({}), context);
    });
  }
  const SavedClip clip_;
};

TEST_F(TextHeadOf, FullFineTuningStartsWithZeroShotLogits) { expect_zero_shot(kModelFull); }

TEST_F(TextHeadOf, LinearProbeStartsWithZeroShotLogits) { expect_zero_shot(kModelLinearProbe); }

TEST_F(TextHeadOf, NetworkOmitsTheTextTower) {
  const auto model = model_of(kModelLinearProbe, options());
  const auto network = model->build(clip_.images().describe(), 3);
  for (const auto& item : network->named_parameters())
    EXPECT_FALSE(item.key().starts_with("text_")) << item.key();
  EXPECT_EQ(weights(*network).size(), 2u);  // the head
}

TEST_F(TextHeadOf, FrozenFeaturesNeedNoClassNames) {
  const auto model = model_of(kModelLinearProbe, options());
  DatasetDescription unnamed = clip_.images().describe();
  const at::Tensor named =
      model->frozen_features(*model->build(unnamed, 0), {{"image", pixels()}}).at("features");
  EXPECT_TRUE(torch::equal(
      model->frozen_features(*model->build_frozen(unnamed), {{"image", pixels()}}).at("features"),
      named));
  EXPECT_TRUE(torch::allclose(named.norm(2, 1), torch::ones({6})));
}

TEST_F(TextHeadOf, TemplatesChangeTheHead) {
  Json other = options();
  other["templates"] = {"no {name}"};
  const auto head = [&](const Json& of) {
    const auto network = model_of(kModelFull, of)->build(clip_.images().describe(), 3);
    return network->named_parameters()["head.weight"].detach().clone();
  };
  EXPECT_TRUE(torch::equal(head(options()), head(options())));
  EXPECT_FALSE(torch::equal(head(options()), head(other)));
}

TEST_F(TextHeadOf, PlanRunsTheTextTowerOnTheMetaDevice) {
  PlanningContext context;
  const runner::Outputs planned =
      stage_of(kModelFull, options())->plan(runner::Inputs({}), context).value();
  const auto model = std::static_pointer_cast<const Model>(planned.at("model"));
  const auto network = model->outline(clip_.images().describe());
  EXPECT_TRUE(network->named_parameters()["head.weight"].is_meta());
}

TEST_F(TextHeadOf, ModelWithoutATextTowerIsRejected) {
  EXPECT_REFUSED(created(kModelFull, options({{"weights", nullptr}})), kOptionConflict,
                 "/model/head_start", "random weights");
  EXPECT_REFUSED(created(kModelFull, options({{"features", "projected"}})), kOptionConflict,
                 "/model/backbone", "projected_normalized");
  Json conv = options();
  conv["backbone"] = {{"kind", "conv"}, {"channels", 4}};
  EXPECT_REFUSED(created(kModelFull, conv), kOptionConflict, "/model/head_start", "convolutional");
  Json bad = options();
  bad["templates"] = {"a photo"};
  EXPECT_REFUSED(created(kModelFull, bad), kOptionConflict, "/model/templates", "{name}");
}

TEST_F(TextHeadOf, MissingFilesNextToTheWeightsAreReported) {
  std::filesystem::remove(clip_.folder() / "merges.txt");
  EXPECT_REFUSED(refusal(options()), kMissingWeights, "/model/backbone/weights", "merges.txt");
  std::ofstream(clip_.folder() / "merges.txt") << "#version: 0.2\n";
  std::ofstream(clip_.folder() / "config.json")
      << R"({"model_type": "clip_vision_model", "hidden_act": "quick_gelu", "layer_norm_eps": 1e-5})";
  EXPECT_REFUSED(refusal(options()), kOptionConflict, "/model/backbone/weights",
                 "'clip_vision_model', not a 'clip'");
}

TEST_F(TextHeadOf, OneOutputForTwoClassesIsRejected) {
  DatasetDescription data = clip_.images().describe();
  data.pair_of = 3;
  data.classes = {"red", "blue"};
  EXPECT_REFUSED(model_of(kModelFull, options())->build(data, 1), kOptionConflict,
                 "/model/head_start", "two classes");
}

}  // namespace
}  // namespace stages
