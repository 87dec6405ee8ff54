#include <gmock/gmock.h>
#include <torch/autograd.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include "runner/shared/disk/storage.h"
#include "runner/shared/stage/stage.h"
#include "stages/checkpoint/checkpoint_folder.h"
#include "stages/model/fine_tuned.h"
#include "stages/stages.h"
#include "stages/train/warm_start.h"
#include "stages/weights/weights.h"
#include "tests/support/model_of.h"
#include "tests/support/refused.h"
#include "tests/support/saved_tower.h"
#include "tests/support/small_backbone.h"
#include "tests/support/stage_of.h"

namespace stages {
namespace {

using runner::StageError;

constexpr std::int64_t kPixels = 32;  // a ResNet halves the image sides five times

Json resnet(const Json& more = Json::object()) {
  Json backbone = {
      {"kind", "resnet"}, {"depth", 12}, {"trainable", true}, {"batch_norm", "running"}};
  backbone.update(more);
  return backbone;
}

Json of_dinov2() {
  return Json::parse(R"({"kind": "dinov2", "hidden_size": 8, "intermediate_size": 16,
      "num_hidden_layers": 2, "num_attention_heads": 2, "patch_size": 4, "register_tokens": 3})");
}

Json conv() { return {{"kind", "conv"}, {"channels", 4}}; }

std::shared_ptr<const Model> full(const Json& backbone, Json options = Json::object()) {
  options["backbone"] = backbone;
  return model_of(kModelFull, options);
}

runner::Result<std::unique_ptr<runner::Stage>> create(const Json& backbone,
                                                      Json options = Json::object()) {
  options["backbone"] = backbone;
  return created(kModelFull, options);
}

TEST(Full, EveryWeightOfEveryBackboneGetsAGradient) {
  for (const Json& backbone :
       {small(), small({{"features", "pooled"}}), of_dinov2(), resnet(), conv()}) {
    const auto model = full(backbone);
    const auto network = model->build(flowers(kPixels), 1);
    const at::Tensor logits = model->forward(*network, {{"image", pixels(kPixels)}}).at("logits");
    torch::autograd::backward({logits.square().sum()}, {});
    for (const auto& item : network->named_parameters())
      EXPECT_TRUE(item.value().grad().defined()) << backbone << item.key();
  }
}

TEST(Full, CheckpointIncludesTheBackbone) {
  const auto network = full(small())->build(flowers(), 1);
  EXPECT_EQ(weights(*network).size(), network->named_parameters().size());
  EXPECT_EQ(base_of(*network), "");
}

TEST(Full, StartsWithTheLogitsOfALinearProbeWithTheSameSeed) {
  const SavedTower saved;
  const Json options = {{"backbone", small({{"weights", saved.file()}})}};
  const auto whole = model_of(kModelFull, options), probe = model_of(kModelLinearProbe, options);
  const auto logits = [&](const Model& model) {
    return model.forward(*model.build(flowers(), 3), {{"image", pixels()}}).at("logits");
  };
  EXPECT_TRUE(torch::equal(logits(*whole), logits(*probe)));
}

TEST(Full, ZeroHeadGivesEveryClassTheSameLogit) {
  for (const Json& backbone : {small(), resnet()}) {
    const auto model = full(backbone, {{"head_start", "zero"}});
    const at::Tensor logits =
        model->forward(*model->build(flowers(kPixels), 1), {{"image", pixels(kPixels)}})
            .at("logits");
    EXPECT_TRUE(torch::equal(logits, torch::zeros({2, 3}))) << backbone;
  }
}

TEST(Full, HasNoFrozenFeatures) {
  EXPECT_FALSE(full(small())->has_frozen_features());
  EXPECT_FALSE(full(resnet())->has_frozen_features());
}

TEST(Full, DropPathAndDropoutReachTheNetwork) {
  const auto network = full(small(), {{"drop_path", 0.25}, {"dropout", 0.5}})->build(flowers(), 1);
  const auto& options = dynamic_cast<const ImageClassifier&>(*network).options();
  EXPECT_EQ(options.tower.drop_path, 0.25);
  EXPECT_EQ(options.dropout, 0.5);
  const auto residual = full(resnet(), {{"drop_path", 0.25}})->build(flowers(kPixels), 1);
  const auto modules = residual->named_modules();
  EXPECT_TRUE(modules.contains("backbone.layer4.0.drop_path"));
  EXPECT_FALSE(modules.contains("backbone.layer1.0.drop_path"));
}

TEST(Full, OptionsThatTheBackboneDoesNotSupportAreRejected) {
  EXPECT_REFUSED(create(resnet({{"trainable", false}})), kOptionConflict,
                 "/model/backbone/trainable", "trains all weights");
  EXPECT_REFUSED(create(resnet({{"batch_norm", "batch"}})), kOptionConflict,
                 "/model/backbone/batch_norm", "single images");
  EXPECT_REFUSED(create(conv(), {{"drop_path", 0.1}}), kOptionConflict, "/model/drop_path",
                 "has none");
  EXPECT_REFUSED(create(small({{"dtype", "bf16"}})), kOptionConflict, "/model/backbone",
                 "frozen weights");
  EXPECT_REFUSED(create(resnet({{"weights", "none.safetensors"}})), kMissingWeights,
                 "/model/backbone/weights");
}

TEST(Full, ResNetWeightsAreReadByTorchvisionNames) {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "resnet.safetensors").string();
  const auto donor = full(resnet())->build(flowers(kPixels), 5);
  NamedTensors saved;
  for (const auto& [name, tensor] : weights(*donor)) {
    constexpr std::string_view kOwn = "backbone.";
    if (name.starts_with(kOwn)) saved.set(name.substr(kOwn.size()), tensor.detach());
  }
  saved.set("fc.weight", torch::zeros({1000, 512}));
  write_safetensors(file, saved);
  const auto network = full(resnet({{"weights", file}}))->build(flowers(kPixels), 1);
  for (const auto& [name, tensor] : weights(*network)) {
    if (!name.starts_with("classifier.")) EXPECT_TRUE(tensor.equal(weights(*donor).at(name)));
  }
  EXPECT_REFUSED(full(resnet({{"weights", file}, {"depth", 18}})), kDamagedWeights,
                 "/model/backbone/weights", "do not match ResNet-18");
}

/// A checkpoint of a linear probe on `backbone`; all weights of its head are 2.
class ProbeToStartFrom {
 public:
  explicit ProbeToStartFrom(const Json& backbone) {
    const auto network = model_of(kModelLinearProbe, {{"backbone", backbone}})->build(flowers(), 1);
    TrainingState state;
    for (const auto& [name, tensor] : weights(*network))
      state.model.set(name, torch::full_like(tensor, 2));
    state.about["base"] = base_of(*network);
    std::filesystem::create_directory(folder());
    write_checkpoint(folder(), state, runner::disk());
  }
  std::filesystem::path folder() const { return folder_.path() / "step-00000001"; }

 private:
  TemporaryFolder folder_;
};

TEST(Full, StartsFromTheHeadOfALinearProbe) {
  const SavedTower saved;
  const Json backbone = small({{"weights", saved.file()}});
  const ProbeToStartFrom probe(backbone);
  const auto network = full(backbone)->build(flowers(), 9);
  RecordingContext context;
  warm_start(*network, probe.folder(), context);
  for (const auto& [name, tensor] : weights(*network)) {
    const at::Tensor expected =
        saved.weights().contains(name) ? saved.weights().at(name) : torch::full_like(tensor, 2);
    EXPECT_TRUE(tensor.equal(expected)) << name;
  }
}

TEST(Full, HeadFromAnotherBackboneIsRejected) {
  const SavedTower saved;
  const ProbeToStartFrom probe(small());
  const auto network = full(small({{"weights", saved.file()}}))->build(flowers(), 9);
  RecordingContext context;
  EXPECT_REFUSED(warm_start(*network, probe.folder(), context), kOptionConflict, "/warm_start",
                 "trained on different frozen weights", "random, seed 7 as Float");
}

TEST(Full, OutlineAcceptsTheHeadOfALinearProbe) {
  const ProbeToStartFrom probe(small());
  RecordingContext context;
  EXPECT_THAT(refusals_of([&] {
                check_warm_start(*full(small())->outline(flowers()), probe.folder(), context);
              }),
              testing::IsEmpty());
}

}  // namespace
}  // namespace stages
