#include "stages/model/fine_tuned.h"

#include <fstream>

#include <gmock/gmock.h>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "runner/shared/stage/stage.h"
#include "stages/machine/counting_allocator.h"
#include "stages/stages.h"
#include "stages/weights/safetensors.h"
#include "tests/support/planning_context.h"
#include "tests/support/recording_context.h"
#include "tests/support/refused.h"
#include "tests/support/saved_tower.h"
#include "tests/support/small_backbone.h"
#include "tests/support/stage_of.h"
#include "tests/support/temporary_folder.h"

namespace stages {
namespace {

using runner::StageError;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

runner::Result<std::unique_ptr<runner::Stage>> create_probe(const Json& backbone) {
  return created(kModelLinearProbe, Json{{"backbone", backbone}});
}

std::shared_ptr<const Model> model(const Json& backbone, std::uint64_t seed = 7) {
  auto stage = create_probe(backbone);
  if (!stage) throw std::logic_error(stage.errors()[0].message);
  RecordingContext context;
  context.facts.seed = seed;
  const runner::Outputs outputs = (*stage)->run(runner::Inputs({}), context);
  return std::static_pointer_cast<const Model>(outputs.at("model"));
}

/// Returns "/model/backbone/weights: message" for the error that creating or building `model`
/// throws.
runner::Diagnostics refusal_of_probe(const Json& backbone, std::int64_t size = 8) {
  return refusals_of([&] {
    model(backbone)->build({10, {{"image", {3, size, size}, at::kFloat}}, {"daisy", "rose"}}, 1);
  });
}

/// Returns "/model/backbone/weights: message" for the error that planning the model's stage throws.
runner::Diagnostics refusal_of_plan(const Json& backbone) {
  PlanningContext context;
  return refusals_of([&] {
    const auto stage = create_probe(backbone);
    (*stage)->plan(runner::Inputs({}), context);
  });
}

TEST(LinearProbe, OnlyTheHeadIsTrainedAndSaved) {
  const auto network = model(small())->build(flowers(), 1);
  std::vector<std::string> trained, saved;
  for (const auto& [name, tensor] : trained_parameters(*network)) trained.push_back(name);
  for (const auto& [name, tensor] : weights(*network)) saved.push_back(name);
  EXPECT_THAT(trained, ElementsAre("head.weight", "head.bias"));
  EXPECT_EQ(saved, trained);
  EXPECT_EQ(base_of(*network), "random, seed 7 as Float");
}

TEST(LinearProbe, TrainingSeedOnlyChangesTheHead) {
  const auto fine_tuned = model(small());
  const auto one = fine_tuned->build(flowers(), 1), other = fine_tuned->build(flowers(), 2);
  EXPECT_FALSE(torch::equal(weights(*one).at("head.weight"), weights(*other).at("head.weight")));
  const auto features = [&](torch::nn::Module& network) {
    return fine_tuned->forward(network, {{"image", pixels()}}).at("features");
  };
  EXPECT_TRUE(torch::equal(features(*one), features(*other)));
}

TEST(LinearProbe, FeaturesCanReplaceTheImage) {
  const auto fine_tuned = model(small());
  const auto network = fine_tuned->build(flowers(), 1);
  const NamedTensors whole = fine_tuned->forward(*network, {{"image", pixels()}});
  EXPECT_TRUE(
      torch::equal(fine_tuned->forward(*network, {{"features", whole.at("features")}}).at("logits"),
                   whole.at("logits")));
}

TEST(LinearProbe, WeightsAreReadAndTheirSourceIsReported) {
  const SavedTower saved;
  const auto fine_tuned = model(small({{"weights", saved.file()}}));
  const auto network = fine_tuned->build(flowers(), 1);
  const auto parameters = network->named_parameters();
  for (const auto& [name, tensor] : saved.weights())
    EXPECT_TRUE(torch::equal(parameters[name], tensor)) << name;
  EXPECT_THAT(
      fine_tuned->notes(*network),
      testing::Contains("'" + saved.file() +
                        "': 40 weights of transformers' CLIP; random: head.weight, head.bias"));
  EXPECT_THAT(base_of(*network),
              testing::MatchesRegex("sha256 [0-9a-f]{64} as Float, 5 positions"));
}

TEST(LinearProbe, ActivationComesFromTheConfigAndIsNeverGuessed) {
  const SavedTower quick("quick_gelu"), exact("gelu");
  const auto features = [](const Json& backbone) {
    const auto fine_tuned = model(backbone);
    return fine_tuned->forward(*fine_tuned->build(flowers(), 1), {{"image", pixels()}})
        .at("features");
  };
  EXPECT_FALSE(torch::equal(features(small({{"weights", quick.file()}})),
                            features(small({{"weights", exact.file()}}))));
  EXPECT_REFUSED(refusal_of_probe(small({{"weights", exact.file()}, {"hidden_act", "quick_gelu"}})),
                 kOptionConflict, "/model/backbone/hidden_act", "quick_gelu", exact.file());
  exact.forget_config();
  EXPECT_REFUSED(refusal_of_probe(small({{"weights", exact.file()}})), kOptionConflict,
                 "/model/backbone/hidden_act", exact.file());
  EXPECT_THAT(refusal_of_probe(small(
                  {{"weights", exact.file()}, {"hidden_act", "gelu"}, {"layer_norm_eps", 1e-5}})),
              testing::IsEmpty());
}

TEST(LinearProbe, ShapeThatContradictsTheConfigIsRejected) {
  const SavedTower saved;
  EXPECT_REFUSED(refusal_of_probe(small({{"weights", saved.file()}, {"hidden_size", 16}})),
                 kOptionConflict, "/model/backbone/hidden_size", "16 in the recipe", "8",
                 saved.file());
}

TEST(LinearProbe, MismatchedWeightsAreReported) {
  const SavedTower saved;
  EXPECT_REFUSED(refusal_of_probe(small({{"weights", saved.file()}, {"num_hidden_layers", 1}})),
                 kDamagedWeights, "/model/backbone/weights", saved.file(),
                 "num_hidden_layers is 1, but 2 in the weights");
}

TEST(LinearProbe, EverySizeThatContradictsTheConfigIsReported) {
  const SavedTower saved;
  saved.change_config({{"num_hidden_layers", 2}, {"patch_size", 4}});
  EXPECT_REFUSED(refusal_of_probe(small(
                     {{"weights", saved.file()}, {"hidden_size", 16}, {"num_hidden_layers", 1}})),
                 kOptionConflict, "/model/backbone/hidden_size", "hidden_size is 16", "but 8",
                 "num_hidden_layers is 1", "but 2");
}

TEST(LinearProbe, PlanChecksSizesOfWeightsWithoutAConfig) {
  const SavedTower saved;
  saved.forget_config();
  const Json known = {{"weights", saved.file()}, {"hidden_act", "gelu"}, {"layer_norm_eps", 1e-5}};
  Json wrong = known;
  wrong.update({{"hidden_size", 16},
                {"intermediate_size", 32},
                {"num_hidden_layers", 3},
                {"projection_dim", 4}});
  EXPECT_REFUSED(
      refusal_of_plan(small(wrong)), kDamagedWeights, "/model/backbone/weights",
      "hidden_size is 16, but 8 in the weights", "intermediate_size is 32, but 16 in the weights",
      "num_hidden_layers is 3, but 2 in the weights", "projection_dim is 4, but 6 in the weights");
  EXPECT_THAT(refusal_of_plan(small(known)), testing::IsEmpty());
}

TEST(LinearProbe, RecipeErrorsAreFoundBeforeTheRun) {
  EXPECT_REFUSED(create_probe(small({{"weights", "none.safetensors"}})), kMissingWeights,
                 "/model/backbone/weights");
  EXPECT_TRUE(create_probe(small()));
}

TEST(LinearProbe, VitHasNoProjectionAndHasItsOwnDefaults) {
  const auto fine_tuned = model({{"kind", "vit"},
                                 {"hidden_size", 8},
                                 {"intermediate_size", 16},
                                 {"num_hidden_layers", 2},
                                 {"num_attention_heads", 2},
                                 {"patch_size", 4},
                                 {"names", "timm"}});
  const auto network = fine_tuned->build(flowers(), 1);
  const auto parameters = network->named_parameters();
  EXPECT_TRUE(parameters.contains("vision_model.encoder.layers.0.self_attn.qkv.weight"));
  EXPECT_TRUE(parameters.contains("vision_model.embeddings.patch_embedding.bias"));
  EXPECT_FALSE(parameters.contains("vision_model.pre_layrnorm.weight"));
  EXPECT_EQ(fine_tuned->forward(*network, {{"image", pixels()}}).at("logits").sizes(),
            at::IntArrayRef({2, 3}));
}

/// The bytes in tensors after creating a model and its network, and the peak while they are
/// created.
struct Taken {
  std::int64_t kept = 0, peak = 0, of_network = 0;
};

Taken taken_by(const Json& backbone) {
  const CountingAllocator counter;
  const auto made = model(backbone);
  const auto network = made->build(flowers(), 1);
  Taken taken{.kept = counter.live_bytes(), .peak = counter.peak_bytes()};
  for (const at::Tensor& parameter : network->parameters())
    taken.of_network += static_cast<std::int64_t>(parameter.nbytes());
  return taken;
}

TEST(LinearProbe, LoadedFileDoesNotStayInMemory) {
  const SavedTower saved;
  NamedTensors tensors = saved.weights();
  tensors.set("text_model.embeddings.token_embedding.weight", torch::ones({1280, 1024}));  // 5 MiB
  tensors.set("logit_scale", torch::ones({}));
  write_safetensors(saved.file(), tensors);
  const Taken taken = taken_by(small({{"weights", saved.file()}}));
  EXPECT_EQ(taken.kept, taken.of_network);
  EXPECT_LT(taken.peak, 2 * taken.of_network);
}

TEST(LinearProbe, HalfPrecisionBaseIsNeverFullyInMemoryAsFloat32) {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "model.safetensors").string();
  const Json wide =
      small({{"hidden_size", 256}, {"intermediate_size", 1024}, {"num_hidden_layers", 4}});
  {
    const auto network = model(wide)->build(flowers(), 1);
    NamedTensors tensors;
    for (const auto& item : network->named_parameters()) {
      if (!item.key().starts_with("head.")) tensors.set(item.key(), item.value().detach());
    }
    write_safetensors(file, tensors);
  }
  Json halves = wide;
  halves.update(
      {{"weights", file}, {"dtype", "bf16"}, {"hidden_act", "gelu"}, {"layer_norm_eps", 1e-5}});
  const Taken taken = taken_by(halves);
  EXPECT_EQ(taken.kept, taken.of_network);
  constexpr std::int64_t kPiece = 1 << 20;
  EXPECT_LE(taken.peak, taken.of_network + kPiece + 4096);
  Json whole = halves;
  whole["dtype"] = "fp32";
  const auto of_halves = model(halves)->build(flowers(), 1),
             of_whole = model(whole)->build(flowers(), 1);
  for (const auto& item : of_whole->named_parameters()) {
    const bool is_head = item.key().starts_with("head.");
    const at::Tensor expected = is_head ? item.value() : item.value().to(at::kBFloat16);
    EXPECT_TRUE(of_halves->named_parameters()[item.key()].equal(expected)) << item.key();
  }
}

TEST(LinearProbe, RandomHalfPrecisionBaseIsTheRoundedFloat32Base) {
  Json halves = small({{"dtype", "bf16"}});
  const auto of_halves = model(halves)->build(flowers(), 1),
             of_whole = model(small())->build(flowers(), 1);
  for (const auto& item : of_whole->named_parameters()) {
    const at::Tensor held = of_halves->named_parameters()[item.key()];
    EXPECT_TRUE(held.equal(item.value().to(held.scalar_type()))) << item.key();
  }
}

TEST(LinearProbe, WeightsThatChangeDuringARunAreRejected) {
  const SavedTower saved;
  const auto made = model(small({{"weights", saved.file()}}));
  made->build(flowers(), 1);
  NamedTensors changed = saved.weights();
  changed.set("visual_projection.weight", torch::zeros({6, 8}));
  write_safetensors(saved.file(), changed);
  EXPECT_REFUSED(made->build(flowers(), 1), kDamagedWeights, "/model/backbone/weights",
                 "has changed");
}

}  // namespace
}  // namespace stages
