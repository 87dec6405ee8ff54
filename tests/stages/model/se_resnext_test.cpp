#include "stages/model/convolutional_classifier.h"

#include <cmath>

#include <gmock/gmock.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include "runner/shared/stage/stage.h"
#include "stages/random/dropout.h"
#include "stages/stages.h"
#include "stages/weights/safetensors.h"
#include "tests/support/chance.h"
#include "tests/support/model_of.h"
#include "tests/support/refused.h"
#include "tests/support/temporary_folder.h"

namespace stages {
namespace {

using Json = nlohmann::ordered_json;
using testing::ElementsAre;
using testing::HasSubstr;

DatasetDescription photographs(std::int64_t size = 32,
                               std::vector<std::string> grades = {"none", "mild", "severe"}) {
  return {.size = 12,
          .tensors = {{"image", {3, size, size}, at::kFloat}, {"label", {}, at::kLong}},
          .classes = std::move(grades)};
}

/// Data for one pair of five classes.
DatasetDescription pair_of_images() {
  DatasetDescription data = photographs(32, {"mild", "severe"});
  data.pair_of = 5;
  return data;
}

Json small_se_resnext(const Json& more = Json::object()) {
  Json options = {{"layers", {1, 1, 1, 1}}, {"cardinality", 2}};
  options["head"] = {{"widths", {6, 5}}};
  options.update(more);
  return options;
}

runner::Diagnostics what_is_refused(const std::function<void()>& act) { return refusals_of(act); }

at::Tensor values_of(const torch::nn::Module& network, const std::string& name) {
  const auto parameters = network.named_parameters();
  const auto buffers = network.named_buffers();
  return parameters.contains(name) ? parameters[name] : buffers[name];
}

NamedTensors some_images(std::int64_t count) {
  return {{"image", torch::arange(count * 3 * 32 * 32, at::kFloat).sin().view({count, 3, 32, 32})}};
}

/// Returns a network's output in evaluation mode for two images.
at::Tensor evaluated_logits(const Model& model, const DatasetDescription& data) {
  const auto network = model.build(data, 1);
  network->eval();
  return model.forward(*network, some_images(2)).at("logits");
}

/// Runs one pass in training mode on `count` images.
NamedTensors trained_on(const Model& model, torch::nn::Module& network, std::int64_t count) {
  network.train();
  const ScopedDropout dropout(network, {.seed = 1, .step = 0},
                              {{"", [&] {
                                  std::vector<std::int64_t> rows(static_cast<std::size_t>(count));
                                  for (std::size_t i = 0; i < rows.size(); ++i)
                                    rows[i] = static_cast<std::int64_t>(i);
                                  return rows;
                                }()}});
  return model.forward(network, some_images(count));
}

TEST(SeResNeXt, DefaultsMatchThePublishedPairNetwork) {
  const auto network = model_of(kModelSeResnext, Json::object())->outline(pair_of_images());
  std::int64_t parameters = 0;
  std::vector<std::string> head;
  for (const auto& item : network->named_parameters()) {
    parameters += item.value().numel();
    if (item.key().starts_with("classifier.")) head.push_back(item.key());
  }
  EXPECT_EQ(parameters, 26627057);
  EXPECT_THAT(head, ElementsAre("classifier.1.weight", "classifier.1.bias", "classifier.3.weight",
                                "classifier.3.bias", "classifier.5.weight", "classifier.5.bias",
                                "classifier.7.weight", "classifier.7.bias", "classifier.9.weight",
                                "classifier.9.bias"));
  EXPECT_THAT(values_of(*network, "classifier.1.weight").sizes().vec(), ElementsAre(512, 2048));
  EXPECT_THAT(values_of(*network, "classifier.9.weight").sizes().vec(), ElementsAre(1, 128));
  EXPECT_TRUE(network->named_parameters().contains("backbone.layer4.2.se.fc2.weight"));
}

TEST(SeResNeXt, HasOneLogitPerClassAndOneForAPair) {
  const auto model = model_of(kModelSeResnext, small_se_resnext());
  EXPECT_THAT(evaluated_logits(*model, photographs()).sizes().vec(), ElementsAre(2, 3));
  const auto of_five = model_of(kModelSeResnext, small_se_resnext({{"num_classes", 5}}));
  EXPECT_THAT(evaluated_logits(*of_five, pair_of_images()).sizes().vec(), ElementsAre(2, 1));
  EXPECT_REFUSED(what_is_refused([&] { of_five->build(photographs(), 1); }), kLabelOutOfRange,
                 "/model/num_classes", "5", "3 classes");
}

TEST(SeResNeXt, HeadAppliesReluBeforeNorm) {
  const auto model =
      model_of(kModelSeResnext, small_se_resnext({{"head", {{"widths", {4}}, {"dropout", 0}}}}));
  const auto network = model->build(photographs(), 1);
  network->eval();
  values_of(*network, "classifier.3.running_mean").fill_(0.5);
  const NamedTensors outputs = model->forward(*network, some_images(2));
  const auto weight = [&](const char* name) { return values_of(*network, name); };
  const at::Tensor hidden = torch::linear(outputs.at("features"), weight("classifier.1.weight"),
                                          weight("classifier.1.bias"))
                                .relu();
  const at::Tensor logits =
      torch::linear((hidden - 0.5) / std::sqrt(1 + 1e-5), weight("classifier.5.weight"),
                    weight("classifier.5.bias"));
  EXPECT_TRUE(torch::allclose(outputs.at("logits"), logits, 1e-5, 1e-6));
}

TEST(SeResNeXt, LaterLayersHaveHalfTheDropout) {
  ClassifierHead head({.widths = {1, 1}, .dropout = 0.5}, 1, 1, at::kFloat);
  std::vector<std::string> layers;
  std::vector<double> kept;
  head.train();
  const std::vector<std::int64_t> rows = [] {
    std::vector<std::int64_t> all(20000);
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int64_t>(i);
    return all;
  }();
  const ScopedDropout dropout(head, {.seed = 1, .step = 0}, {{"", rows}});
  for (const auto& item : head.named_children()) {
    const auto* layer = item.value()->as<Dropout>();
    if (!layer) continue;
    layers.push_back(item.key());
    kept.push_back((layer->forward(torch::ones({20000, 1})) != 0).sum().item<double>());
  }
  EXPECT_THAT(layers, ElementsAre("0", "4", "8"));
  EXPECT_NEAR(kept[0], 10000, count_error(20000, 0.5));
  EXPECT_NEAR(kept[1], 15000, count_error(20000, 0.75));
  EXPECT_NEAR(kept[2], 15000, count_error(20000, 0.75));
}

TEST(SeResNeXt, HeadWithoutHiddenLayersIsASingleLayer) {
  const auto model =
      model_of(kModelSeResnext, small_se_resnext({{"head", {{"widths", Json::array()}}}}));
  const auto network = model->build(photographs(), 1);
  EXPECT_TRUE(network->named_parameters().contains("classifier.1.weight"));
  EXPECT_FALSE(network->named_parameters().contains("classifier.3.weight"));
}

TEST(SeResNeXt, FrozenPartsKeepTheirWeightsAndStatistics) {
  const auto model = model_of(kModelSeResnext, small_se_resnext({{"frozen", {"stem", "layer1"}}}));
  const auto network = model->build(photographs(), 1);
  const at::Tensor stem = values_of(*network, "backbone.bn1.running_mean").clone();
  const at::Tensor first = values_of(*network, "backbone.layer1.0.bn2.running_var").clone();
  const at::Tensor second = values_of(*network, "backbone.layer2.0.bn2.running_var").clone();
  trained_on(*model, *network, 4).at("logits").sum().backward();
  EXPECT_TRUE(values_of(*network, "backbone.bn1.running_mean").equal(stem));
  EXPECT_TRUE(values_of(*network, "backbone.layer1.0.bn2.running_var").equal(first));
  EXPECT_FALSE(values_of(*network, "backbone.layer2.0.bn2.running_var").equal(second));
  for (const auto& item : network->named_parameters()) {
    const bool is_frozen = item.key().starts_with("backbone.conv1.") ||
                           item.key().starts_with("backbone.bn1.") ||
                           item.key().starts_with("backbone.layer1.");
    EXPECT_EQ(item.value().requires_grad(), !is_frozen) << item.key();
  }
}

TEST(SeResNeXt, BatchOfOneTrainsWithRunningStatistics) {
  const auto model = model_of(kModelSeResnext, small_se_resnext());
  const auto network = model->build(photographs(), 1);
  const at::Tensor before = values_of(*network, "classifier.3.running_var").clone();
  const at::Tensor logits = trained_on(*model, *network, 1).at("logits");
  EXPECT_TRUE(logits.isfinite().all().item<bool>());
  logits.sum().backward();
  for (const at::Tensor& parameter : network->parameters())
    EXPECT_TRUE(parameter.grad().isfinite().all().item<bool>());
  for (const auto& item : network->named_buffers())
    EXPECT_TRUE(item.value().isfinite().all().item<bool>()) << item.key();
  EXPECT_TRUE(values_of(*network, "classifier.3.running_var").equal(before));
  EXPECT_EQ(values_of(*network, "classifier.3.num_batches_tracked").item<std::int64_t>(), 0);
  EXPECT_EQ(values_of(*network, "backbone.bn1.num_batches_tracked").item<std::int64_t>(), 1)
      << "with many pixels";
  trained_on(*model, *network, 2);
  EXPECT_EQ(values_of(*network, "classifier.3.num_batches_tracked").item<std::int64_t>(), 1);
}

TEST(SeResNeXt, WeightsAreLoadedByNameWithoutTheClassifier) {
  const TemporaryFolder folder;
  const auto random = model_of(kModelSeResnext, small_se_resnext());
  const auto first = random->build(photographs(), 1);
  NamedTensors saved;
  for (const auto& item : first->named_parameters()) saved.set(item.key(), item.value().detach());
  for (const auto& item : first->named_buffers()) saved.set(item.key(), item.value());
  const std::string file = folder / "pair.safetensors";
  write_safetensors(file, saved);
  const auto model = model_of(kModelSeResnext, small_se_resnext({{"weights", file}}));
  const auto network = model->build(photographs(), 2);
  for (const auto& [name, tensor] : saved) {
    if (name.starts_with("backbone.")) EXPECT_TRUE(values_of(*network, name).equal(tensor)) << name;
  }
  EXPECT_FALSE(values_of(*network, "classifier.1.weight").equal(saved.at("classifier.1.weight")));
  EXPECT_THAT(model->notes(*network),
              ElementsAre(HasSubstr("tensors under 'backbone.'; left out: classifier.1.bias")));
}

TEST(SeResNeXt, MismatchedWeightsAreReported) {
  const TemporaryFolder folder;
  const auto random = model_of(kModelSeResnext, small_se_resnext());
  NamedTensors saved;
  for (const auto& item : random->build(photographs(), 1)->named_parameters()) {
    if (item.key() != "backbone.layer1.0.bn1.bias") saved.set(item.key(), item.value().detach());
  }
  write_safetensors(folder / "less.safetensors", saved);
  EXPECT_REFUSED(
      what_is_refused([&] {
        model_of(kModelSeResnext, small_se_resnext({{"weights", folder / "less.safetensors"}}));
      }),
      kDamagedWeights, "/model/weights", "layer1.0.bn1.bias");
  NamedTensors cadene;
  cadene.set("layer0.conv1.weight", torch::ones({64, 3, 7, 7}));
  write_safetensors(folder / "cadene.safetensors", cadene);
  EXPECT_REFUSED(
      what_is_refused([&] {
        model_of(kModelSeResnext, small_se_resnext({{"weights", folder / "cadene.safetensors"}}));
      }),
      kDamagedWeights, "/model/weights", "Cadene", "legacy_seresnext50_32x4d");
}

TEST(SeResNeXt, DataWithoutImagesIsRejected) {
  const auto model = model_of(kModelSeResnext, small_se_resnext());
  DatasetDescription gray = photographs();
  gray.tensors[0].shape[0] = 1;
  EXPECT_REFUSED(what_is_refused([&] { model->build(gray, 1); }), kOptionConflict, "/model",
                 "three-channel images");
}

}  // namespace
}  // namespace stages
