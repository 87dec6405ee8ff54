#include "stages/model/vision_tower.h"

#include <fstream>
#include <ostream>
#include <sstream>

#include <gmock/gmock.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "tests/support/shared_data.h"
#include "tests/support/tiny_tower.h"

namespace stages {
namespace {

struct KnownSize {
  std::string name;
  std::int64_t hidden, inner, layers, heads, patch, projection, parameters;
};

void PrintTo(const KnownSize& size, std::ostream* out) { *out << size.name; }

ImageClassifierOptions options_of_size(const KnownSize& size) {
  ImageClassifierOptions options;
  options.tower = {{size.hidden, size.inner, size.heads, Activation::kQuickGelu, 1e-5},
                   size.layers,
                   size.patch,
                   224};
  options.feature = Feature::kProjected;
  options.projection_dim = size.projection;
  options.num_classes = 102;
  return options;
}

const KnownSize kB32 = {"b32", 768, 3072, 12, 12, 32, 512, 87456000};
const KnownSize kB16 = {"b16", 768, 3072, 12, 12, 16, 512, 85799424};
const KnownSize kL14 = {"l14", 1024, 4096, 24, 16, 14, 768, 303179776};

/// The lines of the transformers state dict that belong to the tower, each after its number.
std::vector<std::pair<std::int64_t, std::string>> vision_lines(const std::filesystem::path& keys) {
  std::ifstream file(keys);
  std::vector<std::pair<std::int64_t, std::string>> lines;
  std::string line;
  for (std::int64_t number = 0; std::getline(file, line); ++number) {
    if (line.starts_with("vision_model.") || line.starts_with("visual_projection."))
      lines.emplace_back(number, line);
  }
  return lines;
}

std::string key_line(const std::string& name, const at::Tensor& tensor) {
  std::ostringstream line;
  line << name << ' ';
  for (std::int64_t i = 0; i < tensor.dim(); ++i) line << (i > 0 ? "," : "") << tensor.size(i);
  line << " F32";
  return line.str();
}

class KnownSizes : public testing::TestWithParam<KnownSize> {};
INSTANTIATE_TEST_SUITE_P(OfClip, KnownSizes, testing::Values(kB32, kB16, kL14),
                         [](const auto& info) { return info.param.name; });

TEST_P(KnownSizes, NamesShapesAndOrderMatchTransformers) {
  const auto keys = shared_data("cases/parity/fullsize/keys/hf_clip__" + GetParam().name + ".txt");
  RETORT_NEEDS_SHARED(keys);
  const ImageClassifier network(options_of_size(GetParam()), torch::kMeta);
  std::vector<std::string> ours, theirs;
  for (const auto& item : network.named_parameters()) {
    if (!item.key().starts_with("head.")) ours.push_back(key_line(item.key(), item.value()));
  }
  for (const auto& [number, line] : vision_lines(keys)) theirs.push_back(line);
  EXPECT_EQ(ours, theirs);
}

TEST_P(KnownSizes, ParameterCountsMatchTransformers) {
  const ImageClassifier network(options_of_size(GetParam()), torch::kMeta);
  std::int64_t count = 0;
  for (const at::Tensor& parameter : network.tower().parameters()) count += parameter.numel();
  EXPECT_EQ(count, GetParam().parameters);
}

TEST(VisionTower, SubmodulesAreFoundByDottedName) {
  const auto network = std::make_shared<ImageClassifier>(options_of_size(kB32), torch::kMeta);
  const auto modules = network->named_modules();
  const auto* queries = modules.find("vision_model.encoder.layers.11.self_attn.q_proj");
  ASSERT_NE(queries, nullptr);
  EXPECT_NE(std::dynamic_pointer_cast<Linear>(*queries), nullptr);
}

TEST(VisionTower, ClassTokenAloneMatchesTheFullOutput) {
  const auto network = tiny_tower();
  const torch::NoGradGuard no_graph;
  const at::Tensor pixels =
      torch::randn({3, 3, 8, 8}, at::detail::createCPUGenerator(2), torch::kDouble);
  const VisionTower& tower = network->tower();
  const at::Tensor alone = tower.forward_class_token(pixels);
  EXPECT_TRUE(alone.allclose(tower.forward(pixels).narrow(1, 0, 1), 1e-10, 1e-10));
  EXPECT_TRUE(network->forward(pixels).at("features").equal(tower.pool(alone)));
}

TEST(VisionTower, ConversionToAnotherTypeChangesTheComputation) {
  ImageClassifierOptions options = options_of_size(kB32);
  options.tower = {{8, 16, 2, Activation::kGelu, 1e-5}, 2, 4, 8};
  options.projection_dim = 4;
  ImageClassifier network(options);
  const torch::NoGradGuard no_graph;
  for (at::Tensor parameter : network.parameters()) parameter.fill_(0.1);
  network.to(torch::kFloat64);
  EXPECT_EQ(network.forward(torch::ones({1, 3, 8, 8}, torch::kFloat64)).at("logits").scalar_type(),
            torch::kFloat64);
}

}  // namespace
}  // namespace stages
