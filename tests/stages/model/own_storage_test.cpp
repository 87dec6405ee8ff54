// A model creates many networks. Training or merging one of them in place must not affect the
// others.
#include <map>
#include <ostream>
#include <set>

#include <gmock/gmock.h>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "runner/shared/stage/stage.h"
#include "stages/model/adapter_folder.h"
#include "stages/model/adapter_layout.h"
#include "stages/model/fine_tuned.h"
#include "stages/stages.h"
#include "tests/support/captioned_images.h"
#include "tests/support/recording_context.h"
#include "tests/support/saved_tower.h"
#include "tests/support/small_backbone.h"
#include "tests/support/stage_of.h"

namespace stages {
namespace {

/// A kind of model with options that decide what is trained; `weights` stands for the file of a
/// SavedTower.
struct SharedModel {
  std::string name;
  const runner::StageKind* kind;
  Json options;
  bool has_weights = true;
  bool learns_from_episodes = false;
};

void PrintTo(const SharedModel& model, std::ostream* out) { *out << model.name; }

/// Two classes with two examples each, and four queries.
DatasetDescription small_episodes() {
  return {4,
          {{"image", {8, 3, 16, 16}, at::kFloat},
           {"support", {2, 2}, at::kLong},
           {"label", {4}, at::kLong}},
          {"one", "other"}};
}

std::shared_ptr<const Model> made(const SharedModel& shared, const SavedTower& saved) {
  Json options = shared.options;
  if (shared.has_weights) options["backbone"]["weights"] = saved.file();
  const auto stage = stage_of(*shared.kind, options);
  RecordingContext context;
  return std::static_pointer_cast<const Model>(stage->run(runner::Inputs({}), context).at("model"));
}

std::map<std::string, at::Tensor> values(const torch::nn::Module& network) {
  std::map<std::string, at::Tensor> result;
  for (const auto& item : network.named_parameters())
    result[item.key()] = item.value().detach().clone();
  for (const auto& item : network.named_buffers())
    result[item.key()] = item.value().detach().clone();
  return result;
}

std::set<const void*> storages(const torch::nn::Module& network) {
  std::set<const void*> result;
  for (const at::Tensor& tensor : network.parameters()) result.insert(tensor.storage().data());
  for (const at::Tensor& tensor : network.buffers()) result.insert(tensor.storage().data());
  return result;
}

class NetworksOfOneModel : public testing::TestWithParam<SharedModel> {
 protected:
  std::shared_ptr<torch::nn::Module> build() const {
    return model_->build(GetParam().learns_from_episodes ? small_episodes() : flowers(), 1);
  }
  void expect_as_before(const std::map<std::string, at::Tensor>& before) const {
    const auto after = values(*build());
    ASSERT_EQ(after.size(), before.size());
    for (const auto& [name, tensor] : before) EXPECT_TRUE(after.at(name).equal(tensor)) << name;
  }
  const SavedTower saved_;
  const std::shared_ptr<const Model> model_ = made(GetParam(), saved_);
};

TEST_P(NetworksOfOneModel, ShareNoTrainedWeightsOrBuffers) {
  const auto network = build(), other = build();
  std::set<const void*> own, others = storages(*other);
  EXPECT_GT(weights(*network).size(), 0U);
  for (const auto& [name, tensor] : weights(*network)) {
    EXPECT_FALSE(others.contains(tensor.storage().data())) << name;
    EXPECT_TRUE(own.insert(tensor.storage().data()).second)
        << name << " shares memory with another weight";
  }
  for (const auto& [name, tensor] : trained_parameters(*network))
    EXPECT_TRUE(own.contains(tensor.storage().data())) << name << " is trained and not saved";
}

TEST_P(NetworksOfOneModel, AreNotAffectedByTrainingAnEarlierOne) {
  const auto network = build();
  const auto before = values(*network);
  const torch::NoGradGuard no_graph;
  for (const auto& [name, tensor] : weights(*network)) at::Tensor(tensor).add_(1);
  expect_as_before(before);
}

TEST_P(NetworksOfOneModel, AreNotAffectedByMergingAnEarlierOne) {
  const auto network = build();
  const auto before = values(*network);
  {
    const torch::NoGradGuard no_graph;
    for (const auto& [name, tensor] : trained_parameters(*network)) at::Tensor(tensor).add_(1);
  }
  merge_lora(*network);
  expect_as_before(before);
}

std::vector<SharedModel> every_model() {
  const auto lora = [](std::string name, Json options, const Json& backbone = small()) {
    options["targets"] = {"q_proj", "v_proj", "fc1"};
    options["backbone"] = backbone;
    return SharedModel{std::move(name), &kModelLora, std::move(options)};
  };
  const Json conv = {{"kind", "conv"}, {"channels", 4}};
  Json tower = small({{"num_classes", 3}});
  return {{"clip_vision", &kModelClipVision, std::move(tower), /*has_weights=*/false},
          {"linear_probe", &kModelLinearProbe, {{"backbone", small()}}},
          {"linear_probe_in_half", &kModelLinearProbe, {{"backbone", small({{"dtype", "bf16"}})}}},
          {"linear_probe_without_weights",
           &kModelLinearProbe,
           {{"backbone", small()}},
           /*has_weights=*/false},
          {"full", &kModelFull, {{"backbone", small()}}},
          lora("lora", Json::object()),
          lora("lora_with_all_biases", {{"bias", "all"}}),
          lora("lora_with_its_biases", {{"bias", "lora_only"}}),
          lora("lora_with_a_saved_norm", {{"modules_to_save", {"post_layernorm"}}}),
          lora("lora_with_a_saved_layer", {{"modules_to_save", {"fc2"}}, {"bias", "all"}}),
          lora("lora_in_half", {{"bias", "all"}}, small({{"dtype", "bf16"}})),
          {"few_shot_transformer", &kModelFewShotTransformer, {{"backbone", conv}}, false, true},
          {"cross_transformer", &kModelCrossTransformer, {{"backbone", conv}}, false, true},
          {"se_resnext",
           &kModelSeResnext,
           {{"layers", {1, 1, 1, 1}}, {"cardinality", 1}},
           /*has_weights=*/false},
          {"cnn", &kModelCnn, {{"architecture", "mobilenetv2_100"}}, /*has_weights=*/false},
          {"clip", &kModelClip, Json::parse(kTinyClip), /*has_weights=*/false}};
}

INSTANTIATE_TEST_SUITE_P(Every, NetworksOfOneModel, testing::ValuesIn(every_model()),
                         [](const auto& info) { return info.param.name; });

TEST(NetworksOfEveryKind, AreCovered) {
  std::set<std::string_view> shown;
  for (const SharedModel& model : every_model()) shown.insert(model.kind->name);
  for (const runner::StageKind* kind : all_kinds()) {
    const bool is_ours = kind->name.starts_with("model.") && kind != &kModelPython;
    if (is_ours) EXPECT_TRUE(shown.contains(kind->name)) << kind->name;
  }
}

TEST(NetworksOfAnAdapter, DoNotModifyTheLoadedWeights) {
  const SavedTower saved;
  const SharedModel plain = {"", &kModelLora, {{"bias", "all"}, {"backbone", small()}}};
  const auto model = made(plain, saved);
  const auto donor = model->build(flowers(), 1);
  const auto before = values(*donor);
  const auto& network = dynamic_cast<FineTunedClassifier&>(*donor);
  {
    const torch::NoGradGuard no_graph;
    for (const auto& [name, tensor] : trained_parameters(network)) at::Tensor(tensor).add_(1);
  }
  const TemporaryFolder adapter;
  save_adapter(adapter.path(), *network.lora, module_names(network.layout), {}, {});
  SharedModel begun = plain;
  begun.options["adapter"] = adapter.path().string();
  const auto from_adapter = made(begun, saved);
  const auto first = from_adapter->build(flowers(), 1);
  const std::string bias = "vision_model.post_layernorm.bias";
  EXPECT_TRUE(values(*first).at(bias).equal(before.at(bias) + 1));
  for (const auto& [name, tensor] : values(*model->build(flowers(), 1)))
    EXPECT_TRUE(tensor.equal(before.at(name))) << name;
}

}  // namespace
}  // namespace stages
