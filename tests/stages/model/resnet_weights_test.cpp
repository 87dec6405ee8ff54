#include "stages/model/resnet.h"

#include <fstream>

#include <gmock/gmock.h>
#include <torch/serialize.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "stages/weights/saved_weights.h"
#include "tests/support/temporary_folder.h"

namespace stages {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::int64_t kNarrow = 2;  // channels; the names are the same as in wide networks

std::shared_ptr<ResNet> narrow(std::int64_t depth, ResNetStem stem = ResNetStem::kImageNet) {
  auto network = std::make_shared<ResNet>(
      ResNetOptions{.depth = depth, .stem = stem, .width = kNarrow}, at::kFloat);
  const torch::NoGradGuard no_graph;
  for (at::Tensor& weight : network->parameters()) weight.fill_(-1);
  return network;
}

/// Returns what torchvision saves of such a network, including its classifier. Each name follows
/// `prefix`; each tensor has its own number.
NamedTensors saved_by_torchvision(std::int64_t depth, const std::string& prefix = "") {
  const auto network = narrow(depth);
  NamedTensors saved;
  double number = 0;
  for (const auto& item : network->named_parameters())
    saved.set(prefix + item.key(), torch::full_like(item.value(), ++number).detach());
  for (const auto& item : network->named_buffers())
    saved.set(prefix + item.key(), torch::full_like(item.value(), ++number));
  saved.set(prefix + "fc.weight", torch::ones({3, 8 * kNarrow}));
  saved.set(prefix + "fc.bias", torch::ones({3}));
  return saved;
}

/// Reads a file like a model does.
ResNetWeightsReport load(ResNet& network, const std::filesystem::path& file) {
  const SavedWeights shapes = read_saved_weights(file.string(), WeightContents::kShapes);
  ResNetPlaces places(network, shapes.tensors);
  const torch::NoGradGuard no_graph;
  if (places.report().fits())
    read_saved_weights(file.string(), weights_sha256(file.string()), places.sink());
  return places.report();
}

void expect_values(const ResNet& network, const NamedTensors& saved,
                   const std::string& prefix = "") {
  for (const auto& item : network.named_parameters())
    EXPECT_TRUE(item.value().equal(saved.at(prefix + item.key()))) << item.key();
  for (const auto& item : network.named_buffers())
    EXPECT_TRUE(item.value().equal(saved.at(prefix + item.key()))) << item.key();
}

/// Writes a dict of tensors like torch.save, directly or under the key "state_dict" of a
/// checkpoint.
void write_pickle(const std::filesystem::path& path, const NamedTensors& tensors,
                  bool in_checkpoint) {
  c10::Dict<std::string, at::Tensor> dict;
  for (const auto& [name, tensor] : tensors) dict.insert(name, tensor);
  c10::impl::GenericDict checkpoint(c10::StringType::get(), c10::AnyType::get());
  checkpoint.insert("epoch", 90);
  checkpoint.insert("state_dict", dict);
  const std::vector<char> bytes =
      in_checkpoint ? torch::pickle_save(checkpoint) : torch::pickle_save(dict);
  std::ofstream(path, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

TEST(ResNetWeights, AreReadFromSafetensors) {
  const TemporaryFolder folder;
  const NamedTensors saved = saved_by_torchvision(18);
  write_safetensors(folder / "r18.safetensors", saved);
  const auto network = narrow(18);
  const ResNetWeightsReport report = load(*network, folder / "r18.safetensors");
  EXPECT_EQ(report.text(18), "120 tensors of ResNet-18; left out: fc.bias, fc.weight");
  EXPECT_EQ(report.misfits(), "");
  expect_values(*network, saved);
}

TEST(ResNetWeights, AreReadFromTorchFiles) {
  const TemporaryFolder folder;
  const NamedTensors saved = saved_by_torchvision(34);
  write_pickle(folder / "r34.pth", saved, /*in_checkpoint=*/false);
  const auto network = narrow(34);
  EXPECT_EQ(load(*network, folder / "r34.pth").text(34),
            "216 tensors of ResNet-34; left out: fc.bias, fc.weight");
  expect_values(*network, saved);
}

// The file was written by tests/golden/torch_files.py in the format of torch before 1.6, which
// torchvision's first files have.
TEST(ResNetWeights, AreReadFromFilesOfOlderTorchVersions) {
  const std::filesystem::path files =
      std::filesystem::path(RETORT_SOURCE_DIR) / "tests/golden/torch_files";
  const auto network = narrow(18);
  EXPECT_EQ(load(*network, files / "resnet_stream.pth").text(18),
            "120 tensors of ResNet-18; left out: fc.bias, fc.weight");
  expect_values(*network,
                read_saved_weights((files / "resnet_stream.safetensors").string()).tensors);
}

TEST(ResNetWeights, AreFoundBelowTheKeyAndPrefixOfACheckpoint) {
  const TemporaryFolder folder;
  NamedTensors saved = saved_by_torchvision(18, "module.resnet.");
  saved.set("module.film.weight", torch::ones({2}));
  write_pickle(folder / "feti.pt.tar", saved, /*in_checkpoint=*/true);
  const auto network = narrow(18);
  const ResNetWeightsReport report = load(*network, folder / "feti.pt.tar");
  EXPECT_EQ(report.text(18),
            "120 tensors of ResNet-18, under 'module.resnet.'; left out: module.resnet.fc.bias, "
            "module.resnet.fc.weight; unmatched: module.film.weight");
  expect_values(*network, saved, "module.resnet.");
}

TEST(ResNetWeights, DeeperNetworkProvidesBlocksForAShallowerOne) {
  const NamedTensors saved = saved_by_torchvision(18);
  const ResNetPlaces places(*narrow(12), saved);
  EXPECT_EQ(places.report().text(12),
            "84 tensors of ResNet-12; left out: fc.weight, fc.bias; unmatched: "
            "layer2.1.conv1.weight, layer2.1.conv2.weight, layer2.1.bn1.weight, layer2.1.bn1.bias, "
            "layer2.1.bn2.weight, "
            "layer2.1.bn2.bias and 30 more");
}

TEST(ResNetWeights, MissingBlocksAreReportedAndNothingIsLoaded) {
  const ResNetPlaces places(*narrow(34), saved_by_torchvision(18));
  EXPECT_EQ(places.report().misfits(),
            "80 tensors are missing from layer1.2, layer2.2, layer2.3, layer3.2, layer3.3, "
            "layer3.4, layer3.5, layer4.2");
  EXPECT_FALSE(places.report().fits());
  EXPECT_EQ(places.report().taken, 0);
}

TEST(ResNetWeights, WeightsForAnotherStemHaveADifferentShape) {
  const ResNetPlaces places(*narrow(18, ResNetStem::kFeti), saved_by_torchvision(18));
  EXPECT_EQ(places.report().misfits(),
            "1 have a different shape: conv1.weight [2, 3, 7, 7] for [2, 3, 5, 5]");
}

TEST(ResNetWeights, BatchCountMayBeMissing) {
  NamedTensors old;
  for (const auto& [name, tensor] : saved_by_torchvision(18))
    if (!name.ends_with("num_batches_tracked")) old.set(name, tensor);
  const auto network = narrow(18);
  const ResNetPlaces places(*network, old);
  EXPECT_TRUE(places.report().fits()) << places.report().misfits();
  EXPECT_EQ(places.report().taken, 100);
  EXPECT_EQ(network->named_buffers()["bn1.num_batches_tracked"].item<std::int64_t>(), 0);
}

TEST(ResNetWeights, AreAllMissingInAnotherModel) {
  const ResNetPlaces places(*narrow(12), {{"visual.conv1.weight", torch::ones({2})}});
  EXPECT_THAT(places.report().unused, ElementsAre("visual.conv1.weight"));
  EXPECT_THAT(places.report().wrong_shape, IsEmpty());
  EXPECT_EQ(
      places.report().misfits(),
      "70 tensors are missing from conv1, bn1, layer1.0, layer1.1, layer2.0, layer3.0, layer4.0");
}

}  // namespace
}  // namespace stages
