// CLIP models of transformers, and the same with OpenAI's names, read from weight files: both
// towers, their loss and its gradients.

#include <torch/types.h>

#include "stages/contrastive/contrastive_loss.h"
#include "tests/parity/recorded_clip.h"

namespace {

using namespace stages;
namespace fs = std::filesystem;

constexpr const char* kPositions = "vision_model.embeddings.position_embedding.weight";

/// All outputs of our network, by their names in the records.
RecordedTensors outputs_of_clip(const ClipNetwork& network, const at::Tensor& pixels,
                                const at::Tensor& ids) {
  RecordedTensors result;
  const auto add_blocks = [&](const std::string& prefix, const auto& tower, at::Tensor x) {
    std::size_t i = 0;
    result[prefix + "0"] = x;
    for (const auto& block : tower.blocks())
      result[prefix + std::to_string(++i)] = x = block->forward(x);
    return x;
  };
  const at::Tensor last =
      add_blocks("vision.hidden.", network.image_tower(), network.image_tower().embed(pixels));
  result["vision.last_hidden_state"] = last;
  result["vision.pooled"] = network.image_tower().pool(last);
  result["image_features"] = network.project_images(result["vision.pooled"]);
  const at::Tensor words =
      add_blocks("text.hidden.", network.text_tower(), network.text_tower().embed(ids));
  result["text.last_hidden_state"] = network.text_tower().normalize(words);
  result["text_features"] = network.project_texts(network.text_tower().forward(ids));
  const at::Tensor images = network.embed_images(pixels), texts = network.embed_texts(ids);
  result["image_embeds"] = images;
  result["text_embeds"] = texts;
  result["logits_per_image"] = images.matmul(texts.t()) * network.logit_scale().exp();
  result["loss"] = contrastive_loss(images, texts, network.logit_scale(), {}, /*tile=*/2);
  return result;
}

/// The gradient of the weight that the library calls `theirs`. For position embeddings it includes
/// the resizing, which the library does in its forward pass and we do when loading.
at::Tensor gradient_of(const ClipNetwork& network, const NamedTensors& saved, WeightLayout layout,
                       const std::string& theirs, at::ScalarType type) {
  const auto ours = our_name(layout, theirs);
  if (!ours) return {};
  const auto weights = network.named_parameters();
  const at::Tensor* const weight = weights.find(*ours);
  if (!weight) return {};
  if (*ours != kPositions) return weight->grad();
  const at::Tensor before = saved.at(theirs).to(type).detach().requires_grad_();
  resize_positions(before, weight->size(0), PositionResize::kBicubic).backward(weight->grad());
  return before.grad();
}

void compare_clip_in(at::ScalarType type, const RecordedCase& recorded, const fs::path& weights) {
  SCOPED_TRACE(weights.filename().string() + (type == at::kDouble ? " in float64" : " in float32"));
  const RecordedClip clip(recorded, weights, type);
  const ClipNetwork& network = *clip.network;
  ASSERT_TRUE(clip.report.fits());
  EXPECT_EQ(clip.report.taken, static_cast<std::int64_t>(network.parameters().size()));

  Expectation expected(safetensors_fixture(recorded.path / "outputs.safetensors"), type);
  const RecordedTensors outputs = outputs_of_clip(network, clip.pixels, clip.ids);
  for (const auto& [name, tensor] : outputs) {
    if (expected.has(name)) expected.expect_near(name, tensor);
  }
  outputs.at("loss").backward();
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
    const at::Tensor gradient =
        gradient_of(network, clip.saved, clip.report.layout, name.substr(5), type);
    ASSERT_TRUE(gradient.defined()) << name;
    expected.expect_near(name, gradient);
  }
}

void compare_clip(const RecordedCase& recorded) {
  for (const char* file : {"model.safetensors", "openai.safetensors"}) {
    if (!fs::exists(recorded.path / file)) continue;
    compare_clip_in(at::kDouble, recorded, recorded.path / file);
    compare_clip_in(at::kFloat, recorded, recorded.path / file);
  }
}

}  // namespace

std::vector<CaseKind> clip_cases() {
  return {{"Clips",
           [](const RecordedCase& recorded) {
             return recorded.json.contains("family") && recorded.json["family"] == "clip";
           },
           compare_clip}};
}
