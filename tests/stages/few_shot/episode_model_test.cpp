#include "stages/few_shot/episode_model.h"

#include <gmock/gmock.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "runner/shared/stage/stage.h"
#include "stages/memory/policy.h"
#include "stages/numerics/activation_checkpointing.h"
#include "stages/plan/meta_kernels.h"
#include "stages/stages.h"
#include "stages/train/certify.h"
#include "stages/weights/weights.h"
#include "tests/support/chance.h"
#include "tests/support/episodes.h"
#include "tests/support/model_of.h"
#include "tests/support/parts_of_whole.h"
#include "tests/support/planning_context.h"
#include "tests/support/refused.h"
#include "tests/support/scoped_threads.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tiny_training.h"

namespace stages {
namespace {

using Json = nlohmann::ordered_json;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

Json with_backbone(const Json& backbone, Json more = Json::object()) {
  more["backbone"] = backbone;
  return more;
}

const Json kConv = {{"kind", "conv"}, {"channels", 5}};
const Json kResNet12 = {{"kind", "resnet"}, {"depth", 12}};

std::shared_ptr<const Model> few_shot(const Json& backbone = kConv,
                                      const Json& more = Json::object()) {
  return model_of(kModelFewShotTransformer, with_backbone(backbone, more));
}

/// One model of each kind, form and backbone.
std::vector<std::pair<std::string, std::shared_ptr<const Model>>> every_model() {
  const Json softmax = Json::parse(
      R"({"attention": "softmax", "prototype": "mean", "depth": 2,
          "score": {"form": "linear", "normalize_over": "none", "scale": 1.0}})");
  const Json feti = {{"kind", "resnet"},
                     {"depth", 12},
                     {"stem", "feti"},
                     {"trainable", true},
                     {"batch_norm", "running"}};
  const Json frozen = {{"kind", "conv"}, {"blocks", 5}, {"trainable", false}};
  return {
      {"cosine on conv", few_shot({{"kind", "conv"}})},
      {"softmax on conv",
       few_shot({{"kind", "conv"}, {"blocks", 6}, {"batch_norm", "batch"}}, softmax)},
      {"cosine on a frozen conv", few_shot(frozen)},
      {"cosine on a frozen ResNet", few_shot({{"kind", "resnet"}})},
      {"cosine on FETI's ResNet", few_shot(feti)},
      {"cross-transformer", model_of(kModelCrossTransformer, with_backbone({{"kind", "conv"}}))},
      {"cosine cross-transformer",
       model_of(kModelCrossTransformer, with_backbone(feti, {{"attention", "cosine"}}))}};
}

std::vector<std::string> names_of(const NamedTensors& tensors) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) names.push_back(name);
  return names;
}

TEST(EpisodeModel, ReturnsLogitsAndSupportFeaturesOfEachEpisode) {
  const auto model = few_shot();
  const DatasetDescription data = episodes();
  const auto network = model->build(data, 1);
  const NamedTensors outputs = model->forward(*network, episode_inputs(data, 2));
  EXPECT_THAT(names_of(outputs), ElementsAre("logits", "support_features"));
  EXPECT_EQ(outputs.at("logits").sizes(), (std::vector<std::int64_t>{2, 4, 3}));
  EXPECT_EQ(outputs.at("support_features").sizes(),
            (std::vector<std::int64_t>{2, 3, 2, 5 * 2 * 2}));
}

TEST(EpisodeModel, SupportFeaturesMatchTheBackboneInImageOrder) {
  const auto model = few_shot();
  const DatasetDescription data = episodes();
  const auto network = model->build(data, 1);
  const NamedTensors inputs = episode_inputs(data, 1);
  const torch::NoGradGuard no_graph;
  const at::Tensor given = model->forward(*network, inputs).at("support_features")[0].flatten(0, 1);
  const at::Tensor maps =
      dynamic_cast<EpisodeNetwork&>(*network).backbone().forward(inputs.at("image")[0]);
  EXPECT_TRUE(given.equal(maps.slice(0, 0, 6).flatten(1)));
}

TEST(EpisodeModel, EpisodesAreIndependent) {
  for (const auto& [name, model] : every_model()) {
    const auto [small, data] =
        dynamic_cast<const ShrinkableModel&>(*model).shrunken(episodes(3, 2, 4, 100));
    const auto together = small->build(data, 1), apart = small->build(data, 1);
    const NamedTensors inputs = episode_inputs(data, 2);
    const torch::NoGradGuard no_graph;
    const at::Tensor both = model->forward(*together, inputs).at("logits");
    for (std::int64_t episode = 0; episode < 2; ++episode) {
      const NamedTensors one = {{"image", inputs.at("image").slice(0, episode, episode + 1)},
                                {"support", inputs.at("support").slice(0, episode, episode + 1)}};
      EXPECT_TRUE(model->forward(*apart, one).at("logits")[0].equal(both[episode])) << name;
    }
    const auto buffers = together->buffers(), other = apart->buffers();
    for (std::size_t i = 0; i < buffers.size(); ++i)
      EXPECT_TRUE(buffers[i].equal(other[i])) << name << " " << i;
  }
}

TEST(EpisodeModel, OutlineIsTheNetworkWithoutValues) {
  register_meta_kernels();
  const DatasetDescription data = episodes(3, 2, 4, 100);
  for (const auto& [name, model] : every_model()) {
    const auto network = model->build(data, 1), outline = model->outline(data);
    EXPECT_EQ(names_of(weights(*outline)), names_of(weights(*network))) << name;
    EXPECT_EQ(names_of(trained_parameters(*outline)), names_of(trained_parameters(*network)))
        << name;
    for (const at::Tensor& parameter : outline->parameters())
      EXPECT_TRUE(parameter.is_meta()) << name;
    NamedTensors inputs;
    for (const auto& [input, tensor] : episode_inputs(data, 2))
      inputs.set(input, tensor.to(at::kMeta));
    const NamedTensors outputs = model->forward(*outline, inputs);
    EXPECT_EQ(outputs.at("logits").sizes(), (std::vector<std::int64_t>{2, 4, 3})) << name;
    (outputs.at("logits").sum() + outputs.at("support_features").sum()).backward();
    for (const auto& [weight, tensor] : trained_parameters(*outline)) {
      EXPECT_TRUE(tensor.grad().defined()) << name << " " << weight;
    }
  }
}

TEST(EpisodeModel, WeightsDependOnTheSeed) {
  const auto model = few_shot();
  const DatasetDescription data = episodes();
  const auto one = model->build(data, 1), again = model->build(data, 1),
             other = model->build(data, 2);
  for (const auto& item : one->named_parameters()) {
    EXPECT_TRUE(item.value().isfinite().all().item<bool>()) << item.key();
    EXPECT_TRUE(again->named_parameters()[item.key()].equal(item.value())) << item.key();
  }
  const char* const kFirst = "backbone.blocks.0.conv.weight";
  EXPECT_FALSE(other->named_parameters()[kFirst].equal(one->named_parameters()[kFirst]));
}

TEST(EpisodeModel, InitialWeightsMatchThePublishedProgram) {
  const auto network = few_shot({{"kind", "conv"}})->build(episodes(5, 5, 10, 84), 1);
  const auto weights = network->named_parameters();
  const auto expect_normal = [&](const char* name, double deviation) {
    EXPECT_NEAR(weights[name].std().item<double>(), deviation,
                deviation_error(deviation, weights[name].numel()))
        << name;
  };
  const auto expect_uniform = [&](const char* name, double most) {
    EXPECT_LE(weights[name].abs().max().item<float>(), static_cast<float>(most)) << name;
    EXPECT_NEAR(weights[name].abs().max().item<double>(), most,
                largest_error(most, weights[name].numel()))
        << name;
  };
  expect_normal("backbone.blocks.1.conv.weight", std::sqrt(2.0 / (9 * 64)));
  expect_normal("backbone.blocks.0.conv.weight", std::sqrt(2.0 / (9 * 64)));  // by fan-out
  expect_uniform("backbone.blocks.1.conv.bias", 1 / std::sqrt(9.0 * 64));
  expect_uniform("head.attention.in.weight", 1 / std::sqrt(1600.0));
  expect_uniform("head.mlp.mlp.fc2.bias", 1 / std::sqrt(512.0));
  EXPECT_TRUE(weights["head.prototype_weight"].eq(1).all().item<bool>());
  EXPECT_NEAR(weights["head.score.length"].item<double>(),
              weights["head.score.direction"].norm().item<double>(), 1e-6);
  std::int64_t count = 0;
  for (const at::Tensor& parameter : network->parameters()) count += parameter.numel();
  EXPECT_EQ(count, 113088 + 2120 * 1600 + 641 + 25);
}

/// Returns the error of creating a network for this data, with its help.
runner::Diagnostics build_refusal(const Model& model, const DatasetDescription& data) {
  return refusals_of([&] { model.outline(data); });
}

TEST(EpisodeModel, DataWithoutEpisodesIsRejected) {
  const DatasetDescription images{
      10, {{"image", {3, 32, 32}, at::kFloat}, {"label", {}, at::kLong}}, {"a", "b"}};
  EXPECT_REFUSED(build_refusal(*few_shot(), images), kOptionConflict, "/model", "train.episodic");
  DatasetDescription uneven = episodes();
  uneven.tensors[0].shape[0] = 9;
  EXPECT_REFUSED(build_refusal(*few_shot(), uneven), kOptionConflict, "/model", "9 images",
                 "6 supports and 4 queries");
  DatasetDescription gray = episodes();
  gray.tensors[0].shape[1] = 1;
  EXPECT_REFUSED(build_refusal(*few_shot(), gray), kOptionConflict, "/model",
                 "three-channel images");
}

TEST(EpisodeModel, ImagesThatCannotBePooledAreRejected) {
  EXPECT_REFUSED(build_refusal(*few_shot(), episodes(3, 2, 4, 15)), kOptionConflict,
                 "/model/backbone", "15 x 15", "16");
  EXPECT_REFUSED(
      build_refusal(*few_shot({{"kind", "resnet"}, {"stem", "feti"}}), episodes(3, 2, 4, 84)),
      kOptionConflict, "/model/backbone", "84 x 84", "99");
}

TEST(EpisodeModel, FrozenBackboneRunsWithoutAGraphAndIsNotSaved) {
  const DatasetDescription data = episodes(3, 2, 4, 32);
  const auto model = few_shot(kResNet12);
  const auto network = model->build(data, 1), other = model->build(data, 2);
  const NamedTensors outputs = model->forward(*network, episode_inputs(data, 1));
  EXPECT_FALSE(outputs.at("support_features").requires_grad());
  EXPECT_TRUE(outputs.at("logits").requires_grad());
  outputs.at("logits").square().sum().backward();
  for (const auto& item : network->named_parameters())
    EXPECT_EQ(item.value().grad().defined(), item.key().starts_with("head.")) << item.key();
  for (const auto& [name, tensor] : weights(*network))
    EXPECT_TRUE(name.starts_with("head.")) << name;
  EXPECT_EQ(base_of(*network), "random, seed 7");
  // The backbone comes from the stage and does not depend on the training seed.
  const char* const kFirst = "backbone.conv1.weight";
  EXPECT_TRUE(network->named_parameters()[kFirst].equal(other->named_parameters()[kFirst]));
  EXPECT_THAT(
      model->notes(*network),
      ElementsAre("features: 512 x 1 x 1, 512 for each image",
                  "the backbone has random weights and is not trained: its features are random"));
}

TEST(EpisodeModel, FrozenBackboneMatchesATrainableOneAndStaysUnchanged) {
  const DatasetDescription data = episodes(3, 2, 4, 32);
  Json trained = kResNet12;
  trained["trainable"] = true;
  const auto frozen = few_shot(kResNet12)->build(data, 7),
             trainable = few_shot(trained)->build(data, 7);
  EXPECT_EQ(base_of(*trainable), "");
  std::vector<at::Tensor> before;
  auto& backbone = dynamic_cast<EpisodeNetwork&>(*frozen).backbone();
  for (const at::Tensor& tensor : backbone.buffers()) before.push_back(tensor.clone());
  const auto model = few_shot(kResNet12);
  const at::Tensor with_graph = model->forward(*trainable, episode_inputs(data, 1)).at("logits");
  EXPECT_TRUE(model->forward(*frozen, episode_inputs(data, 1)).at("logits").equal(with_graph));
  for (std::size_t i = 0; i < before.size(); ++i)
    EXPECT_TRUE(backbone.buffers()[i].equal(before[i])) << i;
}

TEST(EpisodeModel, BlocksCanBeRecomputed) {
  EXPECT_THAT(blocks_of(*few_shot()->outline(episodes())),
              ElementsAre("backbone.blocks.0", "backbone.blocks.1", "backbone.blocks.2",
                          "backbone.blocks.3", "head.mlp"));
}

TEST(EpisodeModel, MismatchedWeightsAreRejectedBeforeTheRun) {
  const TemporaryFolder folder;
  const ResNet narrow({.depth = 18, .width = 64}, at::kFloat);
  NamedTensors saved;
  for (const auto& item : narrow.named_parameters())
    saved.set(item.key(), torch::zeros_like(item.value()));
  for (const auto& item : narrow.named_buffers()) saved.set(item.key(), item.value());
  const std::string file = folder / "r18.safetensors";
  write_safetensors(file, saved);
  const auto model = few_shot({{"kind", "resnet"}, {"depth", 18}, {"weights", file}});
  const auto network = model->build(episodes(), 1);
  EXPECT_THAT(model->notes(*network), Contains("'" + file + "': 120 tensors of ResNet-18"));
  EXPECT_THAT(base_of(*network), HasSubstr("sha256 " + weights_sha256(file)));
  EXPECT_TRUE(network->named_parameters()["backbone.conv1.weight"].eq(0).all().item<bool>());
  EXPECT_REFUSED(few_shot({{"kind", "resnet"}, {"depth", 34}, {"weights", file}}), kDamagedWeights,
                 "/model/backbone/weights", file, "ResNet-34", "80 tensors", "layer1.2, layer2.2");
}

TEST(EpisodeModel, FeaturesOfAFixedBackboneCanReplaceImages) {
  const DatasetDescription data = episodes();
  const DatasetDescription images = {.size = 4, .tensors = {{"image", {3, 32, 32}, at::kFloat}}};
  const NamedTensors inputs = episode_inputs(data, 2);
  const Json fixed = {{"kind", "conv"}, {"channels", 5}, {"trainable", false}};
  for (const auto& model :
       {few_shot(fixed), model_of(kModelCrossTransformer, with_backbone(fixed))}) {
    ASSERT_TRUE(model->has_frozen_features());
    const auto network = model->build(data, 1), frozen = model->build_frozen(images);
    EXPECT_EQ(names_of(weights(*model->outline_frozen(images))), names_of(weights(*frozen)));
    const torch::NoGradGuard no_graph;
    const at::Tensor features =
        model->frozen_features(*frozen, {{"image", inputs.at("image").flatten(0, 1)}})
            .at("features");
    EXPECT_EQ(features.sizes(), (std::vector<std::int64_t>{20, 5, 2, 2}));
    const NamedTensors kept = {{"features", features.unflatten(0, {2, 10})},
                               {"support", inputs.at("support")}};
    const NamedTensors of_images = model->forward(*network, inputs),
                       of_features = model->forward(*network, kept);
    for (const char* name : {"logits", "support_features"}) {
      EXPECT_FALSE(of_images.at(name).eq(0).all().item<bool>()) << name;
      EXPECT_TRUE(of_features.at(name).allclose(of_images.at(name), 1e-5, 1e-6)) << name;
    }
  }
}

TEST(EpisodeModel, OnlyAFixedBackboneHasFeaturesPerImage) {
  EXPECT_FALSE(few_shot({{"kind", "conv"}})->has_frozen_features());
  EXPECT_FALSE(few_shot({{"kind", "conv"}, {"trainable", false}, {"batch_norm", "batch"}})
                   ->has_frozen_features());
  EXPECT_FALSE(few_shot({{"kind", "resnet"}})->has_frozen_features());
  EXPECT_TRUE(few_shot({{"kind", "resnet"}, {"batch_norm", "running"}})->has_frozen_features());
  EXPECT_REFUSED(few_shot({{"kind", "conv"}, {"trainable", false}})
                     ->build_frozen({.size = 1, .tensors = {{"image", {3, 8, 8}, at::kFloat}}}),
                 kOptionConflict, "/model/backbone", "16 or more");
}

TEST(EpisodeModel, CanBeShrunkForFeatures) {
  const auto model = few_shot({{"kind", "conv"}, {"trainable", false}});
  DatasetDescription data = episodes(5, 5, 80, 84);
  const auto source = std::make_shared<DatasetDescription>(data);
  data.tensors[0] = {"features", {105, 64, 5, 5}, at::kFloat};
  data.source = source;
  const Shrunken small = dynamic_cast<const ShrinkableModel&>(*model).shrunken(data);
  const auto network = small.model->build(source_of(small.data), 1);
  std::vector<std::int64_t> sizes = small.data.tensors[0].shape;
  sizes.insert(sizes.begin(), 1);
  const at::Tensor logits =
      model
          ->forward(*network, {{"features", torch::rand(sizes)},
                               {"support", torch::zeros({1, 5, 5}, torch::kLong)}})
          .at("logits");
  EXPECT_EQ(logits.sizes(), (std::vector<std::int64_t>{1, 5, 5}));
}

TEST(EpisodeModel, ShrunkModelHasTheSameModules) {
  const DatasetDescription data = episodes(5, 5, 80, 224);
  for (const auto& [name, model] : every_model()) {
    const Shrunken small = dynamic_cast<const ShrinkableModel&>(*model).shrunken(data);
    const auto outline = model->outline(data), network = small.model->build(small.data, 1);
    EXPECT_EQ(names_of(weights(*network)), names_of(weights(*outline))) << name;
    EXPECT_EQ(names_of(trained_parameters(*network)), names_of(trained_parameters(*outline)))
        << name;
    std::int64_t numbers = 0;
    for (const at::Tensor& parameter : network->parameters()) numbers += parameter.numel();
    EXPECT_LT(numbers, 20000) << name;
  }
}

TEST(EpisodeModel, SplittingBetweenEpisodesIsExactInEveryForm) {
  const ScopedThreads one(1);  // the layers are too small to be divided among threads
  MemoryPolicy policy;
  policy.micro_batch = 24;
  policy.activation_checkpointing.blocks = true;
  for (const auto& [name, model] : every_model()) {
    const EpisodeStep step(*model);
    for (const bool two_pass : {false, true}) {
      policy.two_pass = two_pass;
      DatasetDescription data = episodes(2, 2, 2, 224);
      data.size = 100;
      TrainerOptions options = tiny_options();
      options.batch_size = 64;
      options.model_stage = "model";
      PlanningContext context;
      const runner::Certificate cut = certify({.step = step,
                                               .model = *model,
                                               .data = data,
                                               .network_data = data,
                                               .loader = {},
                                               .options = options,
                                               .policy = policy},
                                              context);
      EXPECT_TRUE(cut.holds()) << name << " two_pass " << two_pass << ": " << cut.refused << " "
                               << cut.worst() << " " << testing::PrintToString(cut.changed);
    }
  }
}

TEST(EpisodeModel, RanksCreatePartsOfTheSameNetwork) {
  const Json trained = {{"kind", "resnet"}, {"depth", 12}, {"trainable", true}};
  for (const auto& model : {few_shot(), few_shot(trained)}) {
    const Shrunken small = dynamic_cast<const ShrinkableModel&>(*model).shrunken(episodes());
    for (const int ranks : {2, 3}) expect_parts_of_whole(*small.model, small.data, ranks);
  }
}

}  // namespace
}  // namespace stages
