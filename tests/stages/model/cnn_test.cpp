// The kind model.cnn, which selects a network by name.

#include <functional>

#include <gmock/gmock.h>
#include <torch/types.h>

#include "runner/shared/stage/stage.h"
#include "stages/artifact/model.h"
#include "stages/stages.h"
#include "tests/support/model_of.h"
#include "tests/support/refused.h"

namespace stages {
namespace {

using testing::ElementsAre;

DatasetDescription photographs(std::int64_t size = 32,
                               std::vector<std::string> grades = {"none", "mild", "severe"}) {
  return {.size = 12,
          .tensors = {{"image", {3, size, size}, at::kFloat}, {"label", {}, at::kLong}},
          .classes = std::move(grades)};
}

runner::Diagnostics what_is_refused(const std::function<void()>& act) { return refusals_of(act); }

TEST(Cnn, EveryArchitectureClassifies) {
  for (const char* name :
       {"resnet50", "densenet121", "efficientnet_b2", "mobilenetv2_100", "seresnext50_32x4d"}) {
    const auto model = model_of(kModelCnn, {{"architecture", name}, {"head", {{"widths", {4}}}}});
    const Shrunken small = dynamic_cast<const ShrinkableModel&>(*model).shrunken(photographs());
    const auto network = small.model->build(small.data, 1);
    network->eval();
    const NamedTensors images = {{"image", torch::rand({2, 3, 64, 64})}};
    EXPECT_THAT(model->forward(*network, images).at("logits").sizes().vec(), ElementsAre(2, 3))
        << name;
    std::vector<std::string> full, less;
    for (const auto& item : model->outline(photographs())->named_parameters())
      full.push_back(item.key());
    for (const auto& item : network->named_parameters()) less.push_back(item.key());
    EXPECT_EQ(less, full) << name;
  }
}

TEST(Cnn, FrozenModulesMustExistInTheArchitecture) {
  EXPECT_REFUSED(what_is_refused([] {
                   model_of(kModelCnn, {{"architecture", "densenet121"}, {"frozen", {"layer1"}}});
                 }),
                 kOptionConflict, "/model/frozen", "layer1");
  const auto model =
      model_of(kModelCnn, {{"architecture", "densenet121"}, {"frozen", {"features.denseblock1"}}});
  const auto network = model->outline(photographs());
  EXPECT_FALSE(network->named_parameters()["backbone.features.denseblock1.denselayer6.conv2.weight"]
                   .requires_grad());
  EXPECT_TRUE(network->named_parameters()["backbone.features.conv0.weight"].requires_grad());
}

TEST(Cnn, DropPathNeedsTrainableResidualBlocks) {
  const auto create = [](const char* architecture, std::vector<std::string> frozen) {
    return what_is_refused([&] {
      model_of(kModelCnn,
               {{"architecture", architecture}, {"frozen", std::move(frozen)}, {"drop_path", 0.1}});
    });
  };
  EXPECT_REFUSED(create("densenet121", {}), kOptionConflict, "/model/drop_path", "densenet121");
  EXPECT_REFUSED(create("resnet50", {"layer1", "layer2", "layer3", "layer4"}), kOptionConflict,
                 "/model/drop_path", "'frozen'");
  EXPECT_TRUE(create("resnet50", {"layer1", "layer2", "layer3"}).empty());
}

TEST(Cnn, TooSmallImagesAreRejected) {
  const auto model = model_of(kModelCnn, {{"architecture", "densenet121"}});
  EXPECT_REFUSED(what_is_refused([&] { model->outline(photographs(28)); }), kOptionConflict,
                 "/model", "28 x 28", "29");
}

}  // namespace
}  // namespace stages
