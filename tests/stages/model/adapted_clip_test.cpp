#include "stages/model/clip_network.h"

#include <gmock/gmock.h>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "runner/shared/stage/stage.h"
#include "stages/model/adapter_folder.h"
#include "stages/model/adapter_layout.h"
#include "stages/stages.h"
#include "stages/weights/weights.h"
#include "tests/support/captioned_images.h"
#include "tests/support/model_of.h"
#include "tests/support/refused.h"
#include "tests/support/temporary_folder.h"

namespace stages {
namespace {

using runner::StageError;
using testing::Contains;
using testing::HasSubstr;
using testing::UnorderedElementsAre;
using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr const char* kImageLayer = "vision_model.encoder.layers.1.self_attn.q_proj.";
constexpr const char* kTextLayer = "text_model.encoder.layers.1.self_attn.q_proj.";

std::shared_ptr<const Model> adapted_clip(const Json& lora, const Json& more = Json::object()) {
  Json options = Json::parse(kTinyClip);
  options["adapters"] = lora;
  options.merge_patch(more);
  return model_of(kModelClip, options);
}

std::shared_ptr<AdaptedClip> built(const Model& model, std::uint64_t seed = 1) {
  return std::dynamic_pointer_cast<AdaptedClip>(model.build(CaptionedImages(6).describe(), seed));
}

std::vector<std::string> trained_names(const torch::nn::Module& network) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : trained_parameters(network)) names.push_back(name);
  return names;
}

/// Replaces the zeros with which adapters start.
void move_adapters(const AdaptedClip& network) {
  const torch::NoGradGuard no_graph;
  for (const LoraLayer& layer : network.lora().layers)
    at::Tensor(layer.layer->adapter()->b()).fill_(0.5);
}

runner::Diagnostics refusal_of(const Json& lora) {
  return refusals_of([&] { built(*adapted_clip(lora)); });
}

TEST(AdaptedClip, OnlyAdaptersAndClassHeadAreTrainedAndSaved) {
  const auto network = built(*adapted_clip({{"targets", {"q_proj"}}, {"layers", {1}}}));
  const auto expected = UnorderedElementsAre(
      std::string(kImageLayer) + "lora_A.weight", std::string(kImageLayer) + "lora_B.weight",
      std::string(kTextLayer) + "lora_A.weight", std::string(kTextLayer) + "lora_B.weight",
      "class_head.weight", "class_head.bias");
  EXPECT_THAT(trained_names(*network), expected);
  std::vector<std::string> saved;
  for (const auto& [name, tensor] : weights(*network)) saved.push_back(name);
  EXPECT_THAT(saved, expected);
  EXPECT_EQ(network->base(),
            "random, seed 7");  // the seed of the model stage, not of the training stage
  EXPECT_THAT(network->notes, Contains(testing::StartsWith("trainable params: ")));
}

TEST(AdaptedClip, TowerMayHaveNoAdapters) {
  const auto texts = built(
      *adapted_clip({{"targets", R"(text_model\..*\.(q|v)_proj)"}}, {{"class_head", "none"}}));
  for (const std::string& name : trained_names(*texts))
    EXPECT_TRUE(name.starts_with("text_model.")) << name;
  EXPECT_EQ(trained_names(*texts).size(), 8u);
  const auto images =
      built(*adapted_clip({{"targets", {"fc1"}}, {"exclude", R"(text_model\..*)"}}));
  EXPECT_THAT(trained_names(*images), testing::Not(Contains(testing::StartsWith("text_model."))));
}

TEST(AdaptedClip, StartsLikeTheClipModelItself) {
  const auto plain = model_of(kModelClip, Json::parse(kTinyClip));
  const auto with = adapted_clip(Json::object());
  const auto network = built(*with, 3);
  const auto other = plain->build(CaptionedImages(6).describe(), 7);
  const NamedTensors inputs = {{"image", torch::ones({1, 3, 8, 8})},
                               {"tokens", torch::tensor({{512, 3, 513}})}};
  network->eval();
  const NamedTensors ours = with->forward(*network, inputs),
                     theirs = plain->forward(*other, inputs);
  for (const char* name : {"image_embeddings", "text_embeddings", "logit_scale"})
    EXPECT_TRUE(ours.at(name).equal(theirs.at(name))) << name;
}

TEST(AdaptedClip, OutlineHasTheTrainableParametersOfTheNetwork) {
  const auto model =
      adapted_clip({{"bias", "lora_only"}, {"modules_to_save", {"text_projection"}}});
  const auto network = built(*model), outline = std::dynamic_pointer_cast<AdaptedClip>(
                                          model->outline(CaptionedImages(6).describe()));
  EXPECT_EQ(trained_names(*network), trained_names(*outline));
  EXPECT_THAT(trained_names(*network), Contains("text_projection.weight"));
  EXPECT_TRUE(outline->is_base("logit_scale"));
  EXPECT_FALSE(outline->is_base("text_projection.weight"));
}

TEST(AdaptedClip, OptionsWithoutAMatchAreRejected) {
  EXPECT_REFUSED(refusal_of({{"targets", {"qproj"}}}), kOptionConflict, "/model/adapters/targets",
                 "'qproj'", "'q_proj'");
  EXPECT_REFUSED(refusal_of({{"adapter", "/nowhere"}}), kMissingWeights, "/model/adapters/adapter");
}

class FirstAdapterTest : public testing::Test {
 protected:
  std::string folder() const { return (temporary_.path() / "adapter").string(); }
  /// Saves the adapters of a model with these options and a nonzero B, under these names.
  NamedTensors save(const Json& lora, const ModuleNames& names, const AdapterBase& base) const {
    const auto network = built(*adapted_clip(lora), 3);
    move_adapters(*network);
    save_adapter(folder(), network->lora(), names, base);
    return adapter_tensors(network->lora(), module_names(WeightLayout::kClip));
  }
  /// Expects a model that starts from the saved adapter to have these values.
  void expect_taken(Json lora, const NamedTensors& expected) const {
    lora["adapter"] = folder();
    const auto network = built(*adapted_clip(lora), 4);
    const NamedTensors own = adapter_tensors(network->lora(), module_names(WeightLayout::kClip));
    ASSERT_EQ(own.size(), expected.size());
    for (const auto& [name, tensor] : expected) EXPECT_TRUE(own.at(name).equal(tensor)) << name;
    EXPECT_THAT(network->notes, Contains("starts from the adapter in '" + folder() + "'"));
  }
  const TemporaryFolder temporary_;
};

TEST_F(FirstAdapterTest, AdapterOfBothTowersIsLoaded) {
  const Json lora = {{"targets", {"q_proj", "text_projection"}}};
  expect_taken(lora, save(lora, module_names(WeightLayout::kClip), whole_clip()));
  EXPECT_EQ(read_adapter(folder()).config.base_class, "CLIPModel");
}

TEST_F(FirstAdapterTest, AdapterOfTheTextTowerIsLoaded) {
  const Json lora = {{"targets", R"(text_model\..*\.v_proj)"}};
  expect_taken(lora, save(lora, module_names(WeightLayout::kClip), whole_clip()));
}

/// The layer names of a CLIPTextModel in transformers 5, which a CLIPVisionModel has too.
TEST_F(FirstAdapterTest, AdapterOfAClipTextModelIsLoaded) {
  const ModuleNames inner = [](std::string_view ours) -> std::optional<std::string> {
    if (!ours.starts_with("text_model.encoder.layers.")) return std::nullopt;
    return std::string(ours.substr(11));
  };
  const Json lora = {{"targets", R"(text_model\..*\.v_proj)"}};
  const auto tensors =
      save(lora, inner, {"CLIPTextModel", "transformers.models.clip.modeling_clip", {}});
  EXPECT_TRUE(
      read_adapter(folder()).tensors.contains("encoder.layers.0.self_attn.v_proj.lora_A.weight"));
  expect_taken(lora, tensors);
}

TEST_F(FirstAdapterTest, AdapterOfAClipVisionModelIsLoadedByBothNamings) {
  const Json lora = {{"targets", R"(vision_model\..*\.v_proj)"}};
  for (const WeightLayout layout : {WeightLayout::kClip, WeightLayout::kClipInner}) {
    const AdapterBase base = {"CLIPVisionModel", "transformers.models.clip.modeling_clip", {}};
    expect_taken(lora, save(lora, module_names(layout), base));
    fs::remove_all(folder());
  }
}

TEST_F(FirstAdapterTest, AdapterForOtherLayersIsRejected) {
  save({{"targets", R"(text_model\..*\.v_proj)"}}, module_names(WeightLayout::kClip), whole_clip());
  EXPECT_REFUSED(refusal_of({{"targets", {"v_proj"}}, {"adapter", folder()}}), kDamagedWeights,
                 "/model/adapters/adapter", "'vision_model.encoder.layers.0.self_attn.v_proj'");
}

TEST_F(FirstAdapterTest, HeadIsLoadedIfThereIsOne) {
  const auto network = built(*adapted_clip(Json::object()), 3);
  const AdapterHead head = {torch::ones({3, 6}), torch::ones({3}), {"a", "b", "c"}};
  save_adapter(folder(), network->lora(), module_names(WeightLayout::kClip), whole_clip(), head);
  const auto taken = built(*adapted_clip({{"adapter", folder()}}), 4);
  EXPECT_TRUE(taken->named_parameters()["class_head.weight"].equal(head.weight));
  const auto without = built(*adapted_clip({{"adapter", folder()}}, {{"class_head", "none"}}), 4);
  EXPECT_THAT(without->notes,
              Contains("the head of that adapter is left out: this model has none"));
}

}  // namespace
}  // namespace stages
