// Vision towers of transformers, timm and open_clip, read from weight files: outputs and gradients.

#include <set>

#include <ATen/Version.h>
#include <torch/nn/functional/loss.h>
#include <torch/types.h>

#include "tests/parity/recorded_tower.h"

namespace {

using namespace stages;
namespace fs = std::filesystem;

/// The input of the first block, then the output of each block.
std::vector<at::Tensor> hidden_states(const VisionTower& tower, const at::Tensor& pixels) {
  std::vector<at::Tensor> states = {tower.embed(pixels)};
  for (const auto& block : tower.blocks()) states.push_back(block->forward(states.back()));
  return states;
}

/// All outputs of our network, by their names in the records, plus "scalar", the output with
/// recorded gradients.
RecordedTensors outputs_of_model(const RecordedTower& tower) {
  const ImageClassifier& network = tower.network();
  const std::vector<at::Tensor> hidden = hidden_states(network.tower(), tower.pixels());
  const at::Tensor last = network.tower().forward(tower.pixels());
  const at::Tensor pooled = network.tower().pool(last);
  const at::Tensor logits = network.forward(tower.pixels()).at("logits");
  const auto cross_entropy = [](const at::Tensor& logits, const at::Tensor& labels) {
    return torch::nn::functional::cross_entropy(logits, labels);
  };
  RecordedTensors result;
  const auto add_hidden = [&](const std::string& prefix, std::size_t first) {
    for (std::size_t i = first; i < hidden.size(); ++i)
      result[prefix + std::to_string(i - first)] = hidden[i];
  };
  if (tower.family() == "vit" || tower.layout() == WeightLayout::kTimm) {
    result["logits"] = logits;
    if (tower.labels().defined()) result["loss"] = cross_entropy(logits, tower.labels());
    result["scalar"] = tower.labels().defined() ? result["loss"] : tower.probe(logits);
    if (tower.family() == "vit") {
      add_hidden("hidden.", 0);
      return result;
    }
    add_hidden("block.", 1);
    result["pooled"] = pooled;
    // There, the final norm comes before the class token is selected, and treats every token alike.
    at::Tensor tokens = torch::empty_like(last);
    for (std::int64_t i = 0; i < last.size(1); ++i)
      tokens.select(1, i).copy_(network.tower().pool(last.slice(1, i)));
    result["tokens"] = tokens;
    return result;
  }
  if (tower.family() == "timm") {  // CLIP: the head is the projection
    add_hidden("block.", 1);
    result["pooled"] = pooled;
    result["logits"] = network.feature(last);
    if (tower.labels().defined()) result["loss"] = cross_entropy(result["logits"], tower.labels());
    result["scalar"] = tower.labels().defined() ? result["loss"] : tower.probe(result["logits"]);
    at::Tensor tokens = torch::empty_like(last);
    for (std::int64_t i = 0; i < last.size(1); ++i)
      tokens.select(1, i).copy_(network.tower().pool(last.slice(1, i)));
    result["tokens"] = tokens;
    return result;
  }
  add_hidden("hidden.", 0);
  result["last_hidden_state"] = last;
  result["pooled"] = pooled;
  if (!tower.is_projected()) {
    result["scalar"] = tower.probe(pooled);
    return result;
  }
  const at::Tensor features = network.feature(last);
  result["image_embeds"] = features;
  result["projected_cls_before_norm"] = network.projected(last.select(1, 0));
  result["scalar"] = tower.probe(features);
  return result;
}

/// Even in float64, timm resizes position embeddings in float32, and LibTorch's generic CPU kernels
/// round the last bit differently from those used for recording.
double tolerance_of_model(const RecordedCase& recorded, at::ScalarType type) {
  if (type != at::kDouble) return 1e-4;
  const bool is_resized =
      kind_of(recorded) == "timm" &&
      recorded.json.value("wrong_variants", nlohmann::json()).contains("antialias");
  return is_resized && at::get_cpu_capability() == "DEFAULT" ? 1e-6 : 1e-10;
}

void compare_model_in(at::ScalarType type, const RecordedCase& recorded, const fs::path& weights) {
  SCOPED_TRACE(weights.filename().string() + (type == at::kDouble ? " in float64" : " in float32"));
  const RecordedTower tower(recorded, weights, type);
  Expectation expected(safetensors_fixture(recorded.path / "outputs.safetensors"), type,
                       tolerance_of_model(recorded, type));
  const RecordedTensors outputs = outputs_of_model(tower);
  for (const auto& [name, tensor] : outputs) {
    if (expected.has(name)) expected.expect_near(name, tensor);
  }
  outputs.at("scalar").backward();
  // Gradients were recorded under the names of the first file; the file with OpenAI's names holds
  // the same network.
  const bool has_gradients = weights.filename() == "model.safetensors";
  for (const std::string& key : expected.uncompared()) {
    const std::string name = key.substr(4);
    if (!name.starts_with("grad.")) {
      ADD_FAILURE() << "nothing was compared with " << key;
      continue;
    }
    if (!has_gradients) continue;
    const at::Tensor gradient = tower.gradient(name.substr(5));
    ASSERT_TRUE(gradient.defined()) << name;
    expected.expect_near(name, gradient);
  }
}

void compare_model(const RecordedCase& recorded) {
  for (const char* file : {"model.safetensors", "openai.safetensors"}) {
    if (!fs::exists(recorded.path / file)) continue;
    compare_model_in(at::kDouble, recorded, recorded.path / file);
    compare_model_in(at::kFloat, recorded, recorded.path / file);
  }
}

}  // namespace

std::vector<CaseKind> model_cases() {
  static const std::set<std::string> kFamilies = {"clip_vision", "clip_vision_projection", "vit",
                                                  "timm"};
  return {{"Models",
           [](const RecordedCase& recorded) {
             return recorded.json.contains("family") && recorded.json["family"].is_string() &&
                    kFamilies.contains(recorded.json["family"].get<std::string>());
           },
           compare_model}};
}
