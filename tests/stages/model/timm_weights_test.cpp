#include "stages/model/timm_weights.h"

#include <gmock/gmock.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "stages/model/convolutional_classifier.h"
#include "stages/weights/saved_weights.h"
#include "tests/support/temporary_folder.h"

namespace stages {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::shared_ptr<FeatureMaps> small_network() {
  return make_backbone(BottleneckOptions{.layers = {1, 1, 1, 1}, .squeeze_ratio = 16, .planes = 2},
                       at::kFloat);
}

/// Returns what timm saves of such a network; each name follows `prefix`.
NamedTensors saved_by_timm(const std::string& prefix = "", const std::string& head = "fc.") {
  const auto network = small_network();
  NamedTensors saved;
  double number = 0;
  for (const auto& item : network->named_parameters())
    saved.set(prefix + item.key(), torch::full_like(item.value(), ++number).detach());
  for (const auto& item : network->named_buffers())
    saved.set(prefix + item.key(), torch::full_like(item.value(), ++number));
  saved.set(head + "weight", torch::ones({3, 64}));
  saved.set(head + "bias", torch::ones({3}));
  return saved;
}

/// Returns the file with some names removed or changed.
NamedTensors changed(const NamedTensors& saved,
                     const std::function<std::string(const std::string&)>& rename) {
  NamedTensors result;
  for (const auto& [name, tensor] : saved) {
    if (const std::string other = rename(name); !other.empty()) result.set(other, tensor);
  }
  return result;
}

TimmWeightsReport report_of(const NamedTensors& saved) {
  const auto network = small_network();
  return TimmWeightPlaces(*network, saved).report();
}

TEST(TimmWeights, AreReadFromSafetensors) {
  const TemporaryFolder folder;
  const std::string file = folder / "timm.safetensors";
  const NamedTensors saved = saved_by_timm();
  write_safetensors(file, saved);
  const auto network = small_network();
  const SavedWeights shapes = read_saved_weights(file, WeightContents::kShapes);
  TimmWeightPlaces places(*network, shapes.tensors);
  EXPECT_EQ(places.report().misfits(), "");
  EXPECT_EQ(places.report().text(), "118 tensors; left out: fc.bias, fc.weight");
  const torch::NoGradGuard no_graph;
  read_saved_weights(file, weights_sha256(file), places.sink());
  for (const auto& item : network->named_parameters())
    EXPECT_TRUE(item.value().equal(saved.at(item.key())));
  for (const auto& item : network->named_buffers())
    EXPECT_TRUE(item.value().equal(saved.at(item.key())));
}

TEST(TimmWeights, AreFoundBelowThePrefixOfANetworkWithAHead) {
  const TimmWeightsReport report = report_of(saved_by_timm("backbone.", "classifier.9."));
  EXPECT_EQ(report.text(),
            "118 tensors under 'backbone.'; left out: classifier.9.weight, classifier.9.bias");
  EXPECT_EQ(report_of(saved_by_timm("module.backbone.", "module.classifier.9.")).misfits(), "");
}

TEST(TimmWeights, CountersMayBeMissing) {
  const NamedTensors without = changed(saved_by_timm(), [](const std::string& name) {
    return name.ends_with("num_batches_tracked") ? "" : name;
  });
  EXPECT_TRUE(report_of(without).fits());
}

TEST(TimmWeights, UnknownNamesAreReported) {
  const auto rename = [](const std::string& from, const std::string& to) {
    return [=](const std::string& name) { return name == from ? to : name; };
  };
  EXPECT_EQ(report_of(changed(saved_by_timm(), rename("layer1.0.se.fc1.bias", ""))).misfits(),
            "1 missing: layer1.0.se.fc1.bias");
  EXPECT_EQ(report_of(changed(saved_by_timm(), rename("bn1.bias", "bn1.bais"))).misfits(),
            "1 missing: bn1.bias; 1 unknown: bn1.bais");
  NamedTensors more = saved_by_timm();
  more.set("layer1.0.gamma", torch::ones({2}));
  EXPECT_EQ(report_of(more).misfits(), "1 unknown: layer1.0.gamma");
  EXPECT_FALSE(report_of(more).fits());
  EXPECT_EQ(report_of(more).taken, 0);
  NamedTensors wide = saved_by_timm();
  wide.set("conv1.weight", torch::ones({4, 3, 7, 7}));
  EXPECT_EQ(report_of(wide).misfits(),
            "1 with a different shape: conv1.weight [4, 3, 7, 7] for [2, 3, 7, 7]");
}

TEST(TimmWeights, CadeneNamesAreRecognized) {
  const NamedTensors saved = changed(saved_by_timm(), [](const std::string& name) {
    if (name == "conv1.weight") return std::string("layer0.conv1.weight");
    const std::size_t gate = name.find(".se.");
    return gate == name.npos ? name : name.substr(0, gate) + ".se_module." + name.substr(gate + 4);
  });
  EXPECT_TRUE(report_of(saved).has_cadene_names);
  EXPECT_FALSE(report_of(saved).fits());
  EXPECT_FALSE(report_of(saved_by_timm()).has_cadene_names);
}

TEST(TimmWeights, SeveralNetworksInOneFileAreRejected) {
  NamedTensors saved =
      saved_by_timm("classifiers.a.pair_0_1.backbone.", "classifiers.a.pair_0_1.classifier.9.");
  for (const auto& [name, tensor] : saved_by_timm("classifiers.a.pair_0_2.backbone."))
    saved.set(name, tensor);
  EXPECT_THAT(report_of(saved).misfits(),
              testing::StartsWith("120 unknown: classifiers.a.pair_0_2.backbone."));
}

}  // namespace
}  // namespace stages
