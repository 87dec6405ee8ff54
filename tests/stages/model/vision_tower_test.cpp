#include "stages/model/vision_tower.h"

#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <torch/torch.h>

#include <nlohmann/json.hpp>

#include "stages/model/image_classifier.h"
#include "tests/support/safetensors_fixture.h"
#include "tests/support/shared_data.h"

namespace stages {
namespace {

using Tensors = std::map<std::string, at::Tensor>;

constexpr double kWithinDouble = 1e-10, kWithinFloat = 1e-4;

/// The pseudo-random numbers of the recorded cases: uniform in [-1, 1), a function of (seed, index, position).
at::Tensor hash_uniform(std::uint64_t seed, std::uint64_t index, at::IntArrayRef shape) {
  const at::Tensor result = torch::empty(shape, torch::kFloat64);
  double* values = result.data_ptr<double>();
  const std::uint64_t start = seed * 0x9E3779B97F4A7C15 + index * 0xBF58476D1CE4E5B9 + 0x9E3779B97F4A7C15;
  for (std::int64_t j = 0; j < result.numel(); ++j) {
    std::uint64_t z = start + static_cast<std::uint64_t>(j);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    z ^= z >> 31;
    values[j] = static_cast<double>(z >> 40) * 0x1p-23 - 1;
  }
  return result;
}

ImageClassifierOptions options_of(const nlohmann::json& config, Feature feature,
                                  std::optional<std::int64_t> projection) {
  ImageClassifierOptions options;
  options.tower.block.hidden_size = config.at("hidden_size");
  options.tower.block.intermediate_size = config.at("intermediate_size");
  options.tower.block.num_attention_heads = config.at("num_attention_heads");
  options.tower.block.layer_norm_eps = config.at("layer_norm_eps");
  options.tower.block.hidden_act = config.at("hidden_act") == "gelu" ? Activation::kGelu : Activation::kQuickGelu;
  options.tower.num_hidden_layers = config.at("num_hidden_layers");
  options.tower.patch_size = config.at("patch_size");
  options.tower.image_size = config.at("image_size");
  options.feature = feature;
  options.projection_dim = projection;
  options.num_classes = 2;
  return options;
}

nlohmann::json json_file(const std::filesystem::path& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file);
}

/// A recorded model of HF's, loaded into ours.
struct RecordedTower {
  RecordedTower(const std::filesystem::path& folder, Feature feature, std::string prefix, at::ScalarType type)
      : inputs(safetensors_fixture(folder / "inputs.safetensors")),
        outputs(safetensors_fixture(folder / "outputs.safetensors")) {
    const auto config = json_file(folder / "config.json");
    const auto& vision = config.contains("vision_config") ? config.at("vision_config") : config;
    const Tensors weights = safetensors_fixture(folder / "model.safetensors");
    const bool has_projection = weights.contains("visual_projection.weight");
    const auto projection = has_projection ? std::optional<std::int64_t>(vision.at("projection_dim")) : std::nullopt;
    network = std::make_shared<ImageClassifier>(options_of(vision, feature, projection));
    const torch::NoGradGuard no_graph;
    for (const auto& item : network->named_parameters()) {
      if (item.key().starts_with("head.")) continue;
      const std::string name = item.key().starts_with("vision_model.")
                                   ? prefix + item.key().substr(std::string("vision_model.").size())
                                   : item.key();
      item.value().copy_(weights.at(name));
      ours_by_name[name] = item.value();
    }
    network->to(type);
    kind = type == torch::kFloat64 ? "f64." : "f32.";
    pixels = inputs.at("pixel_values").to(type);
  }

  const at::Tensor& expected(const std::string& name) const { return outputs.at(kind + name); }
  double tolerance() const { return kind == "f64." ? kWithinDouble : kWithinFloat; }

  void expect_near(const std::string& name, const at::Tensor& actual) const {
    ASSERT_EQ(expected(name).sizes(), actual.sizes()) << name;
    EXPECT_LT((expected(name) - actual).abs().max().item<double>(), tolerance()) << kind << name;
  }

  /// Compares every recorded gradient of a weight of ours; there must be `count`.
  void expect_gradients(std::size_t count) const {
    std::size_t compared = 0;
    for (const auto& [name, expected] : outputs) {
      const std::string grad = kind + "grad.";
      if (!name.starts_with(grad) || !ours_by_name.contains(name.substr(grad.size()))) continue;
      const at::Tensor& ours = ours_by_name.at(name.substr(grad.size())).grad();
      ASSERT_TRUE(ours.defined()) << name;
      EXPECT_LT((expected - ours).abs().max().item<double>(), tolerance()) << name;
      ++compared;
    }
    EXPECT_EQ(compared, count);
  }

  Tensors inputs, outputs, ours_by_name;
  std::shared_ptr<ImageClassifier> network;
  std::string kind;
  at::Tensor pixels;
};

/// What leaves each block, the input of the first one in front.
std::vector<at::Tensor> hidden_states(const VisionTower& tower, const at::Tensor& pixels) {
  std::vector<at::Tensor> states = {tower.embed(pixels)};
  for (const auto& block : tower.blocks()) states.push_back(block->forward(states.back()));
  return states;
}

class RecordedTowers : public testing::TestWithParam<at::ScalarType> {};
INSTANTIATE_TEST_SUITE_P(InBothPrecisions, RecordedTowers, testing::Values(torch::kFloat64, torch::kFloat32));

void expect_tower_as_recorded(const std::filesystem::path& folder, const std::string& prefix, at::ScalarType type) {
  const RecordedTower recorded(folder, Feature::kPooled, prefix, type);
  const VisionTower& tower = recorded.network->tower();
  const auto hidden = hidden_states(tower, recorded.pixels);
  recorded.expect_near("hidden.0", hidden[0]);
  recorded.expect_near("hidden.1", hidden[1]);
  const at::Tensor last = tower.forward(recorded.pixels);
  recorded.expect_near("last_hidden_state", last);
  const at::Tensor pooled = tower.pool(last);
  recorded.expect_near("pooled", pooled);
  const auto seed = json_file(folder / "case.json").at("seed").get<std::uint64_t>();
  (10 * (hash_uniform(seed, 2000000, pooled.sizes()).to(type) * pooled).mean()).backward();
  recorded.expect_gradients(6);
}

TEST_P(RecordedTowers, KeysWithoutPrefix) {
  const auto folder = shared_data("cases/parity/models/clip_vision_quick_gelu");
  RETORT_NEEDS_SHARED(folder);
  expect_tower_as_recorded(folder, "", GetParam());
}

TEST_P(RecordedTowers, KeysWithPrefix) {
  const auto folder = shared_data("cases/parity/models/clip_vision_prefixed");
  RETORT_NEEDS_SHARED(folder);
  expect_tower_as_recorded(folder, "vision_model.", GetParam());
}

TEST_P(RecordedTowers, ProjectionOnTop) {
  const auto folder = shared_data("cases/parity/models/clip_vision_projection_gelu");
  RETORT_NEEDS_SHARED(folder);
  const RecordedTower recorded(folder, Feature::kProjected, "vision_model.", GetParam());
  const at::Tensor last = recorded.network->tower().forward(recorded.pixels);
  recorded.expect_near("hidden.1", hidden_states(recorded.network->tower(), recorded.pixels)[1]);
  recorded.expect_near("last_hidden_state", last);
  const at::Tensor embeds = recorded.network->feature(last);
  recorded.expect_near("image_embeds", embeds);
  const auto seed = json_file(folder / "case.json").at("seed").get<std::uint64_t>();
  (10 * (hash_uniform(seed, 2000000, embeds.sizes()).to(GetParam()) * embeds).mean()).backward();
  recorded.expect_gradients(7);
}

TEST_P(RecordedTowers, ProjectionOfTheClassTokenBeforeItsNorm) {
  const auto folder = shared_data("cases/parity/models/clip_vision_projection_gelu");
  RETORT_NEEDS_SHARED(folder);
  const RecordedTower recorded(folder, Feature::kProjectedBeforeNorm, "vision_model.", GetParam());
  const at::Tensor last = recorded.network->tower().forward(recorded.pixels);
  recorded.expect_near("projected_cls_before_norm", recorded.network->feature(last));
  recorded.expect_near("projected_cls_before_norm", recorded.network->forward(recorded.pixels).at("features"));
}

/// The vision half of a whole CLIP: the text half is taken as recorded, so that the loss and its gradients are known.
void expect_vision_half_as_recorded(const std::filesystem::path& folder, at::ScalarType type) {
  const RecordedTower recorded(folder, Feature::kProjected, "vision_model.", type);
  const VisionTower& tower = recorded.network->tower();
  const auto hidden = hidden_states(tower, recorded.pixels);
  recorded.expect_near("vision.hidden.0", hidden[0]);
  recorded.expect_near("vision.hidden.1", hidden[1]);
  recorded.expect_near("vision.last_hidden_state", hidden.back());
  recorded.expect_near("vision.pooled", tower.pool(hidden.back()));
  const at::Tensor features = recorded.network->feature(hidden.back());
  recorded.expect_near("image_features", features);
  const at::Tensor embeds = features / features.norm(2, 1, /*keepdim=*/true);
  recorded.expect_near("image_embeds", embeds);

  const at::Tensor scale = safetensors_fixture(folder / "model.safetensors").at("logit_scale").to(type).exp();
  const at::Tensor logits = scale * embeds.matmul(recorded.expected("text_embeds").t());
  recorded.expect_near("logits_per_image", logits);
  const at::Tensor targets = torch::arange(logits.size(0));
  const at::Tensor loss = (torch::nn::functional::cross_entropy(logits, targets) +
                           torch::nn::functional::cross_entropy(logits.t(), targets)) /
                          2;
  recorded.expect_near("loss", loss);
  loss.backward();
  recorded.expect_gradients(7);
}

TEST_P(RecordedTowers, VisionHalfOfClipWithQuickGelu) {
  const auto folder = shared_data("cases/parity/models/clip_quick_gelu_eos_legacy");
  RETORT_NEEDS_SHARED(folder);
  expect_vision_half_as_recorded(folder, GetParam());
}

TEST_P(RecordedTowers, VisionHalfOfClipWithGelu) {
  const auto folder = shared_data("cases/parity/models/clip_gelu_eos_new");
  RETORT_NEEDS_SHARED(folder);
  expect_vision_half_as_recorded(folder, GetParam());
}

struct KnownSize {
  std::string name;
  std::int64_t hidden, inner, layers, heads, patch, projection, parameters;
};

ImageClassifierOptions options_of(const KnownSize& size) {
  ImageClassifierOptions options;
  options.tower = {{size.hidden, size.inner, size.heads, Activation::kQuickGelu, 1e-5}, size.layers, size.patch, 224};
  options.feature = Feature::kProjected;
  options.projection_dim = size.projection;
  options.num_classes = 102;
  return options;
}

const KnownSize kB32 = {"b32", 768, 3072, 12, 12, 32, 512, 87456000};
const KnownSize kB16 = {"b16", 768, 3072, 12, 12, 16, 512, 85799424};
const KnownSize kL14 = {"l14", 1024, 4096, 24, 16, 14, 768, 303179776};

/// The lines of HF's state dict that are ours, each after its number.
std::vector<std::pair<std::int64_t, std::string>> vision_lines(const std::filesystem::path& keys) {
  std::ifstream file(keys);
  std::vector<std::pair<std::int64_t, std::string>> lines;
  std::string line;
  for (std::int64_t number = 0; std::getline(file, line); ++number) {
    if (line.starts_with("vision_model.") || line.starts_with("visual_projection.")) lines.emplace_back(number, line);
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

TEST_P(KnownSizes, HaveTheNamesShapesAndOrderOfHf) {
  const auto keys = shared_data("cases/parity/fullsize/keys/hf_clip__" + GetParam().name + ".txt");
  RETORT_NEEDS_SHARED(keys);
  const ImageClassifier network(options_of(GetParam()), torch::kMeta);
  std::vector<std::string> ours, theirs;
  for (const auto& item : network.named_parameters()) {
    if (!item.key().starts_with("head.")) ours.push_back(key_line(item.key(), item.value()));
  }
  for (const auto& [number, line] : vision_lines(keys)) theirs.push_back(line);
  EXPECT_EQ(ours, theirs);
}

TEST_P(KnownSizes, HaveTheParametersOfHf) {
  const ImageClassifier network(options_of(GetParam()), torch::kMeta);
  std::int64_t count = 0;
  for (const at::Tensor& parameter : network.tower().parameters()) count += parameter.numel();
  EXPECT_EQ(count, GetParam().parameters);
}

/// The weight rule "hash-v1" of the recorded full-size networks, for the names a vision tower has.
at::Tensor formula_weight(const std::string& name, std::uint64_t seed, std::int64_t number, at::IntArrayRef shape) {
  const at::Tensor u = hash_uniform(seed, static_cast<std::uint64_t>(number), shape);
  const double inputs = static_cast<double>(u.numel()) / static_cast<double>(shape[0]);
  const auto has = [&](const char* part) { return name.find(part) != name.npos; };
  if (has("class_embedding") || has("position_embedding")) return 0.04 * u;
  if (has("patch_embed")) return 0.04 * std::sqrt(3 / inputs) * u;
  if (shape.size() == 2) return std::sqrt(3 / inputs) * u;
  return name.ends_with("weight") ? 1 + 0.1 * u : 0.1 * u;
}

void expect_close(const nlohmann::json& expected, const at::Tensor& actual, const std::string& name) {
  EXPECT_EQ(expected.at("shape").get<std::vector<std::int64_t>>(), actual.sizes().vec()) << name;
  EXPECT_NEAR(actual.norm().item<double>(), expected.at("norm"), 1e-9 * expected.at("norm").get<double>()) << name;
  EXPECT_NEAR(actual.mean().item<double>(), expected.at("mean"), 1e-9) << name;
  const at::Tensor flat = actual.flatten();
  for (std::int64_t i = 0; i < 8; ++i) {
    EXPECT_NEAR(flat[i].item<double>(), expected.at("first").at(i), 1e-8) << name << " " << i;
  }
}

TEST(FullSize, B32ComputesWhatWasRecorded) {
  const auto record = shared_data("cases/parity/fullsize/clip_b32.json");
  const auto keys = shared_data("cases/parity/fullsize/keys/hf_clip__b32.txt");
  RETORT_NEEDS_SHARED(record);
  const auto recorded = json_file(record);
  const auto seed = recorded.at("seed").get<std::uint64_t>();
  const torch::NoGradGuard no_graph;
  ImageClassifier network(options_of(kB32), torch::kFloat32);
  auto weights = network.named_parameters();
  for (const auto& [number, line] : vision_lines(keys)) {
    const std::string name = line.substr(0, line.find(' '));
    weights[name].copy_(formula_weight(name, seed, number, weights[name].sizes()));
  }
  network.to(torch::kFloat64);

  const at::Tensor pixels = 2 * hash_uniform(seed, 1000000, {2, 3, 224, 224});
  const auto& trace = recorded.at("f64").at("trace");
  const auto hidden = hidden_states(network.tower(), pixels);
  const auto expect_norm = [&](const std::string& name, const at::Tensor& tensor) {
    EXPECT_NEAR(tensor.norm().item<double>(), trace.at(name), 1e-9 * trace.at(name).get<double>()) << name;
  };
  expect_norm("vision_model.pre_layrnorm", hidden[0]);
  for (std::size_t i = 1; i < hidden.size(); ++i) {
    expect_norm("vision_model.encoder.layers." + std::to_string(i - 1), hidden[i]);
  }
  expect_norm("vision_model.post_layernorm", network.tower().pool(hidden.back()));
  const at::Tensor features = network.feature(hidden.back());
  expect_norm("visual_projection", features);
  const auto& eval = recorded.at("f64").at("eval");
  expect_close(eval.at("vision.last_hidden_state"), hidden.back(), "vision.last_hidden_state");
  expect_close(eval.at("image_embeds"), features / features.norm(2, 1, true), "image_embeds");
}

TEST(VisionTower, SubmodulesAreFoundByTheirDottedNames) {
  const auto network = std::make_shared<ImageClassifier>(options_of(kB32), torch::kMeta);
  const auto modules = network->named_modules();
  const auto* queries = modules.find("vision_model.encoder.layers.11.self_attn.q_proj");
  ASSERT_NE(queries, nullptr);
  EXPECT_NE(std::dynamic_pointer_cast<Linear>(*queries), nullptr);
}

TEST(VisionTower, MovingToAnotherTypeMovesWhatItComputesWith) {
  ImageClassifierOptions options = options_of(kB32);
  options.tower = {{8, 16, 2, Activation::kGelu, 1e-5}, 2, 4, 8};
  options.projection_dim = 4;
  ImageClassifier network(options);
  const torch::NoGradGuard no_graph;
  for (at::Tensor parameter : network.parameters()) parameter.fill_(0.1);
  network.to(torch::kFloat64);
  EXPECT_EQ(network.forward(torch::ones({1, 3, 8, 8}, torch::kFloat64)).at("logits").scalar_type(), torch::kFloat64);
}

}  // namespace
}  // namespace stages
