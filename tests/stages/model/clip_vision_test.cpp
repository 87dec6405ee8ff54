#include "stages/model/clip_vision.h"

#include <gmock/gmock.h>
#include <torch/types.h>

#include "runner/shared/stage/stage.h"
#include "stages/stages.h"
#include "tests/support/chance.h"
#include "tests/support/recording_context.h"
#include "tests/support/refused.h"
#include "tests/support/stage_of.h"

namespace stages {
namespace {

using runner::ErrorCode;
using runner::StageError;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::string_view kTiny =
    R"("hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "patch_size": 4)";

runner::Result<std::unique_ptr<runner::Stage>> create(const std::string& options) {
  return created(kModelClipVision, "{" + options + "}");
}

std::shared_ptr<const Model> model(const std::string& options, RecordingContext& context) {
  const auto stage = create(options);
  EXPECT_TRUE(stage);
  const runner::Outputs outputs = (*stage)->run(runner::Inputs({}), context);
  return std::static_pointer_cast<const Model>(outputs.at("model"));
}

std::shared_ptr<const Model> model(const std::string& options) {
  RecordingContext context;
  return model(options, context);
}

std::shared_ptr<const Model> tiny(const std::string& more = "") {
  return model(std::string(kTiny) + (more.empty() ? "" : ", " + more));
}

DatasetDescription flowers(std::int64_t height = 8, std::int64_t width = 8) {
  return {10,
          {{"image", {3, height, width}, at::kFloat}, {"label", {}, at::kLong}},
          {"daisy", "rose", "tulip"}};
}

runner::Diagnostics refusal(const Model& model, const DatasetDescription& data) {
  return refusals_of([&] { model.build(data, 1); });
}

TEST(ClipVision, DefaultsAreComplete) { EXPECT_TRUE(create("")); }

TEST(ClipVision, DefaultsMatchTheB32ModelFromTransformers) {
  RecordingContext context;
  const auto made = std::static_pointer_cast<const ClipVision>(model("", context));
  DatasetDescription data = flowers(224, 224);
  const ImageClassifier network(made->fit(data), torch::kMeta);
  std::int64_t parameters = 0;
  for (const at::Tensor& parameter : network.tower().parameters()) parameters += parameter.numel();
  EXPECT_EQ(parameters, 87456000);
  EXPECT_THAT(context.said, IsEmpty());
}

TEST(ClipVision, UnusedProjectionIsReportedAndOmitted) {
  RecordingContext context;
  const auto made = model(std::string(kTiny) + R"(, "projection_dim": 8)", context);
  EXPECT_THAT(context.said,
              ElementsAre("projection_dim has no effect with 'features: pooled': its weights, 512 "
                          "bytes, are left out"));
  EXPECT_FALSE(made->build(flowers(), 1)->named_parameters().contains("visual_projection.weight"));
}

TEST(ClipVision, ForwardReturnsLogitsAndFeaturesPerRow) {
  const auto made = tiny();
  const auto network = made->build(flowers(), 1);
  const NamedTensors outputs = made->forward(*network, {{"image", torch::rand({5, 3, 8, 8})}});
  EXPECT_THAT(outputs.at("logits").sizes().vec(), ElementsAre(5, 3));
  EXPECT_THAT(outputs.at("features").sizes().vec(), ElementsAre(5, 16));
  EXPECT_EQ(outputs.at("logits").scalar_type(), at::kFloat);
}

TEST(ClipVision, ProjectedFeaturesAreAsWideAsTheProjection) {
  for (const std::string features : {"projected", "projected_before_norm"}) {
    const auto made = tiny(R"("projection_dim": 6, "features": ")" + features + "\"");
    const auto network = made->build(flowers(), 1);
    EXPECT_THAT(made->forward(*network, {{"image", torch::rand({2, 3, 8, 8})}})
                    .at("features")
                    .sizes()
                    .vec(),
                ElementsAre(2, 6));
  }
}

TEST(ClipVision, HiddenActivationIsUsed) {
  const auto quick = tiny(R"("hidden_act": "quick_gelu", "initializer_factor": 3)");
  const auto exact = tiny(R"("hidden_act": "gelu", "initializer_factor": 3)");
  const NamedTensors inputs = {{"image", torch::ones({1, 3, 8, 8})}};
  const at::Tensor a = quick->forward(*quick->build(flowers(), 1), inputs).at("features");
  const at::Tensor b = exact->forward(*exact->build(flowers(), 1), inputs).at("features");
  EXPECT_GT((a - b).abs().max().item<double>(), 1e-4);
}

TEST(ClipVision, EpsilonIsUsed) {
  const NamedTensors inputs = {{"image", torch::ones({1, 3, 8, 8})}};
  const auto usual = tiny(), large = tiny(R"("layer_norm_eps": 0.5)");
  const at::Tensor a = usual->forward(*usual->build(flowers(), 1), inputs).at("features");
  const at::Tensor b = large->forward(*large->build(flowers(), 1), inputs).at("features");
  EXPECT_GT((a - b).abs().max().item<double>(), 1e-2);
}

TEST(ClipVision, InitializerRangeIsUsed) {
  const auto weights = tiny(R"("initializer_range": 0.5, "initializer_factor": 4)")
                           ->build(flowers(), 1)
                           ->named_parameters();
  const auto expect_spread = [&](const char* name, double deviation) {
    EXPECT_NEAR(weights[name].std().item<double>(), deviation,
                deviation_error(deviation, weights[name].numel()))
        << name;
  };
  expect_spread("vision_model.embeddings.patch_embedding.weight", 2);
  expect_spread("vision_model.encoder.layers.0.self_attn.out_proj.weight", 1);
}

TEST(ClipVision, BuildDependsOnlyOnTheSeed) {
  const auto made = tiny();
  const auto a = made->build(flowers(), 5)->named_parameters(),
             b = made->build(flowers(), 5)->named_parameters();
  const auto other = made->build(flowers(), 6)->named_parameters();
  for (const auto& item : a) EXPECT_TRUE(item.value().equal(b[item.key()])) << item.key();
  EXPECT_FALSE(a["head.weight"].equal(other["head.weight"]));
}

TEST(ClipVision, BuildLeavesTheGlobalGeneratorAlone) {
  const at::Tensor before = at::detail::getDefaultCPUGenerator().get_state().clone();
  tiny()->build(flowers(), 5);
  EXPECT_TRUE(at::detail::getDefaultCPUGenerator().get_state().equal(before));
}

TEST(ClipVision, EveryWeightGetsAGradient) {
  const auto made = tiny(R"("projection_dim": 6, "features": "projected")");
  const auto network = made->build(flowers(), 1);
  made->forward(*network, {{"image", torch::rand({2, 3, 8, 8})}})
      .at("logits")
      .square()
      .sum()
      .backward();
  for (const auto& item : network->named_parameters())
    EXPECT_TRUE(item.value().grad().defined()) << item.key();
}

TEST(ClipVision, OutputCountMatchesTheClasses) {
  const auto network = tiny(R"("num_classes": 3)")->build(flowers(), 1);
  EXPECT_EQ(network->named_parameters()["head.weight"].size(0), 3);
}

TEST(ClipVision, OutputCountThatDiffersFromTheClassesIsRejected) {
  EXPECT_REFUSED(refusal(*tiny(R"("num_classes": 7)"), flowers()), kLabelOutOfRange,
                 "/model/num_classes", "7", "3 classes");
  EXPECT_REFUSED(refusal(*tiny(R"("num_classes": 2)"), flowers()), kLabelOutOfRange,
                 "/model/num_classes", "2", "3 classes");
}

TEST(ClipVision, DataWithoutClassesIsRejected) {
  DatasetDescription data = flowers();
  data.classes.clear();
  EXPECT_REFUSED(refusal(*tiny(), data), kLabelOutOfRange, "/model/num_classes", "no classes");
}

TEST(ClipVision, ImagesOfAnotherSizeAreRejected) {
  EXPECT_REFUSED(refusal(*tiny(R"("image_size": 12)"), flowers()), kOptionConflict,
                 "/model/image_size", "8 pixels", "expects 12");
}

TEST(ClipVision, ImageSizeMustBeAMultipleOfThePatchSize) {
  EXPECT_REFUSED(refusal(*tiny(), flowers(10, 10)), kOptionConflict, "/model/patch_size", "size 10",
                 "patch_size 4");
}

TEST(ClipVision, NonSquareImagesAreRejected) {
  EXPECT_REFUSED(refusal(*tiny(), flowers(8, 12)), kOptionConflict, "/model/image_size",
                 "8 pixels high and 12 wide");
}

TEST(ClipVision, DataWithoutImagesIsRejected) {
  DatasetDescription data = flowers();
  data.tensors.erase(data.tensors.begin());
  EXPECT_REFUSED(refusal(*tiny(), data), kOptionConflict, "/model", "three-channel images");
}

}  // namespace
}  // namespace stages
