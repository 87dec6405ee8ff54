#include "stages/model/adapter_folder.h"

#include <fstream>
#include <iterator>

#include <gmock/gmock.h>
#include <torch/types.h>

#include "runner/shared/stage/stage.h"
#include "stages/weights/safetensors.h"
#include "tests/support/refused.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tiny_tower.h"

namespace stages {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;
using List = std::vector<std::string>;

const AdapterBase kBase = {"CLIPVisionModel", "transformers.models.clip.modeling_clip", {}};
const std::string kFirst = "base_model.model.vision_model.encoder.layers.0.self_attn.q_proj.";

/// A network with nonzero adapters on queries, and their biases.
struct Adapted {
  explicit Adapted(std::uint64_t seed = 5, std::int64_t rank = 2) : network(tiny_tower()) {
    LoraOptions options{.rank = rank, .alpha = 4};
    options.targets = List{"q_proj"};
    options.bias = LoraBias::kAdapted;
    options.initialization = LoraInitialization::kRandom;
    network->to(torch::kFloat32);
    lora = attach_lora(*network, options, clip_names, seed);
  }
  std::shared_ptr<ImageClassifier> network;
  AttachedLora lora;
};

std::string bytes(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_text(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }

void expect_same_tensors(const AttachedLora& a, const AttachedLora& b) {
  const NamedTensors of_b = adapter_tensors(b, clip_names);
  for (const auto& [name, tensor] : adapter_tensors(a, clip_names))
    EXPECT_TRUE(tensor.equal(of_b.at(name))) << name;
}

class AdapterFolderTest : public testing::Test {
 protected:
  const TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path() / "adapter";
};

TEST_F(AdapterFolderTest, RoundTripKeepsTheBytes) {
  const Adapted one, other(6);
  save_adapter(folder_, one.lora, clip_names, kBase);
  const SavedAdapter saved = read_adapter(folder_);
  EXPECT_EQ(saved.config.options, one.lora.options);
  EXPECT_EQ(saved.config.base_class, "CLIPVisionModel");
  EXPECT_THAT(load_adapter(other.lora, saved, clip_names), IsEmpty());
  expect_same_tensors(one.lora, other.lora);
  save_adapter(temporary_.path() / "again", other.lora, clip_names, kBase);
  for (const char* file : {"adapter_config.json", "adapter_model.safetensors"})
    EXPECT_EQ(bytes(folder_ / file), bytes(temporary_.path() / "again" / file)) << file;
}

TEST_F(AdapterFolderTest, FileMatchesPeft) {
  save_adapter(folder_, Adapted().lora, clip_names, kBase);
  const Safetensors file = read_safetensors(folder_ / "adapter_model.safetensors");
  EXPECT_EQ(file.metadata, (std::map<std::string, std::string>{{"format", "pt"}}));
  List names;
  for (const auto& [name, tensor] : file.tensors) names.push_back(name);
  const std::string second = "base_model.model.vision_model.encoder.layers.1.self_attn.q_proj.";
  EXPECT_THAT(names, ElementsAre(kFirst + "base_layer.bias", kFirst + "lora_A.weight",
                                 kFirst + "lora_B.weight", second + "base_layer.bias",
                                 second + "lora_A.weight", second + "lora_B.weight"));
}

TEST_F(AdapterFolderTest, CanBeSavedWithNamesFromAnotherLibrary) {
  const Adapted one, other(6);
  save_adapter(folder_, one.lora, inner_names, kBase);
  const SavedAdapter saved = read_adapter(folder_);
  EXPECT_TRUE(saved.tensors.contains("encoder.layers.0.self_attn.q_proj.lora_A.weight"));
  const std::vector<ModuleNames> libraries = {clip_names, inner_names};
  EXPECT_EQ(names_of_adapter(saved, *other.network, libraries), 1u);
  load_adapter(other.lora, saved, inner_names);
  expect_same_tensors(one.lora, other.lora);
}

TEST_F(AdapterFolderTest, OneNamedAdapterInTheFolderIsLoaded) {
  save_adapter(folder_ / "flowers", Adapted().lora, clip_names, kBase);
  EXPECT_EQ(read_adapter(folder_).folder, folder_ / "flowers");
  save_adapter(folder_ / "birds", Adapted().lora, clip_names, kBase);
  EXPECT_REFUSED(read_adapter(folder_), kMissingWeights, "/adapter", folder_.string(),
                 "birds, flowers");
  EXPECT_REFUSED(read_adapter(temporary_.path()), kMissingWeights, "/adapter",
                 temporary_.path().string(), "adapter_config.json");
}

TEST_F(AdapterFolderTest, HeadIsSavedNextToTheAdapterWithItsClasses) {
  const AdapterHead head = {
      torch::arange(6, torch::kFloat32).view({3, 2}), torch::ones({3}), {"rose", "Veilchen", "ß"}};
  save_adapter(folder_, Adapted().lora, clip_names, kBase, head);
  const SavedAdapter saved = read_adapter(folder_);
  ASSERT_TRUE(saved.head);
  EXPECT_TRUE(saved.head->weight.equal(head.weight));
  EXPECT_TRUE(saved.head->bias.equal(head.bias));
  EXPECT_EQ(saved.head->classes, head.classes);
  write_text(folder_ / "classes.json", R"(["rose"])");
  EXPECT_REFUSED(read_adapter(folder_), kDamagedWeights, "/adapter", "classes.json", "1 classes",
                 "has 3");
  write_text(folder_ / "classes.json", "{}");
  EXPECT_REFUSED(read_adapter(folder_), kDamagedWeights, "/adapter", "classes.json",
                 "list of names");
}

TEST_F(AdapterFolderTest, OrdinalHeadIsMarked) {
  const AdapterHead head = {
      torch::ones({2, 2}), torch::ones({2}), {"a", "b", "c"}, OrdinalHead::kCorn};
  save_adapter(folder_ / "next", Adapted().lora, clip_names, kBase, head);
  const SavedAdapter next = read_adapter(folder_ / "next");
  EXPECT_EQ(next.head->ordinal, OrdinalHead::kCorn);
  EXPECT_EQ(next.head->classes, head.classes);
  save_adapter_with_head(folder_ / "inside", Adapted().lora, inner_names, kBase, head);
  SavedAdapter inside = read_adapter(folder_ / "inside");
  take_head(inside, inner_names);
  EXPECT_EQ(inside.head->ordinal, OrdinalHead::kCorn);
  write_safetensors(folder_ / "next/head.safetensors",
                    {{"bias", head.bias}, {"weight", head.weight}}, {{"ordinal", "probit"}});
  EXPECT_REFUSED(read_adapter(folder_ / "next"), kDamagedWeights, "/adapter", "head.safetensors",
                 "unknown head for ordered classes");
}

TEST_F(AdapterFolderTest, HeadMayBeAModuleOfTheAdapter) {
  const AdapterHead head = {
      torch::arange(6, torch::kFloat32).view({3, 2}), torch::ones({3}), {"a", "b", "c"}};
  save_adapter_with_head(folder_, Adapted().lora, inner_names, kBase, head);
  SavedAdapter saved = read_adapter(folder_);
  EXPECT_THAT(saved.config.options.modules_to_save, ElementsAre("classifier"));
  EXPECT_TRUE(saved.tensors.at("classifier.weight").equal(head.weight));
  EXPECT_FALSE(saved.head);
  const Adapted other(6);
  EXPECT_THROW(load_adapter(other.lora, saved, inner_names), runner::StageError);
  take_head(saved, inner_names);
  ASSERT_TRUE(saved.head);
  EXPECT_TRUE(saved.head->weight.equal(head.weight));
  EXPECT_TRUE(saved.head->bias.equal(head.bias));
  EXPECT_EQ(saved.head->classes, head.classes);
  load_adapter(other.lora, saved, inner_names);
  expect_same_tensors(Adapted().lora, other.lora);
  EXPECT_REFUSED(save_adapter_with_head(folder_, Adapted().lora, clip_names, kBase, head),
                 kOptionConflict, "", "head");
}

TEST_F(AdapterFolderTest, AllMismatchesAreListedAndNothingIsLoaded) {
  const Adapted one;
  save_adapter(folder_, one.lora, clip_names, kBase);
  SavedAdapter saved = read_adapter(folder_);
  std::vector<NamedTensors::Item> tensors;
  for (const auto& [name, tensor] : saved.tensors) {
    if (name.ends_with("0.self_attn.q_proj.lora_A.weight")) continue;
    tensors.emplace_back(name, name.ends_with("bias") ? tensor.slice(0, 1) : tensor + 1);
  }
  tensors.emplace_back("vision_model.encoder.layers.9.self_attn.q_proj.lora_A.weight",
                       torch::ones({1}));
  saved.tensors = NamedTensors(tensors);
  const Adapted other;
  EXPECT_REFUSED(load_adapter(other.lora, saved, clip_names), kDamagedWeights, "/adapter",
                 "1 tensor missing: " + std::string(kFirst) + "lora_A.weight",
                 "1 tensor unexpected: "
                 "base_model.model.vision_model.encoder.layers.9.self_attn.q_proj.lora_A.weight",
                 "2 tensors with a different shape",
                 std::string(kFirst) + "base_layer.bias (7, not 8)");
  expect_same_tensors(one.lora, other.lora);
}

TEST_F(AdapterFolderTest, AdaptersWithADifferentRankOrScalingAreRejected) {
  save_adapter(folder_, Adapted(5, 2).lora, clip_names, kBase);
  EXPECT_REFUSED(load_adapter(Adapted(5, 4).lora, read_adapter(folder_), clip_names),
                 kDamagedWeights, "/adapter", "'vision_model.encoder.layers.0.self_attn.q_proj'",
                 "rank 2 and scaling 2", "rank 4 and scaling 1");
}

TEST_F(AdapterFolderTest, TextTowerPartIsOmittedAndReported) {
  const Adapted one;
  save_adapter(folder_, one.lora, clip_names, kBase);
  SavedAdapter saved = read_adapter(folder_);
  saved.tensors.set("text_model.encoder.layers.0.self_attn.q_proj.lora_A.weight", torch::ones({1}));
  EXPECT_THAT(load_adapter(one.lora, saved, clip_names),
              ElementsAre("1 tensor of the adapter in '" + folder_.string() +
                          "' is left out: this model has no CLIP text tower"));
}

TEST_F(AdapterFolderTest, AdapterFromAnotherNetworkIsRejectedByModuleName) {
  const Adapted one;
  save_adapter(folder_, one.lora, clip_names, kBase);
  const std::vector<ModuleNames> libraries = {inner_names};
  EXPECT_REFUSED(names_of_adapter(read_adapter(folder_), *one.network, libraries), kDamagedWeights,
                 "/adapter", "'vision_model.encoder.layers.0.self_attn.q_proj'");
}

TEST_F(AdapterFolderTest, DamagedFoldersAreRejected) {
  save_adapter(folder_, Adapted().lora, clip_names, kBase);
  write_text(folder_ / "adapter_config.json",
             R"({"peft_type": "LORA", "target_modules": ["q_proj"], "use_bdlora": true})");
  EXPECT_REFUSED(read_adapter(folder_), kDamagedWeights, "/adapter", "'use_bdlora' is true");
  fs::remove(folder_ / "adapter_config.json");
  fs::create_directory(folder_ / "adapter_config.json");
  EXPECT_REFUSED(read_adapter(folder_), kDamagedWeights, "/adapter", "adapter_config.json");
  fs::remove_all(folder_);
  save_adapter(folder_, Adapted().lora, clip_names, kBase);
  write_safetensors(folder_ / "adapter_model.safetensors", {{"x.lora_A.weight", torch::ones({1})}});
  EXPECT_REFUSED(read_adapter(folder_), kDamagedWeights, "/adapter", "'x.lora_A.weight'",
                 "'base_model.model.'");
}

}  // namespace
}  // namespace stages
