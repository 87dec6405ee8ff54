// Vision towers of transformers, timm and open_clip: outputs and gradients, through the reader of their weights.

#include <set>

#include <torch/torch.h>

#include "stages/model/image_classifier.h"
#include "stages/model/pretrained.h"
#include "stages/model/pretrained_config.h"
#include "tests/parity/recorded_case.h"

namespace {

using namespace stages;
namespace fs = std::filesystem;

/// A recorded model's vision tower in ours.
class Tower {
 public:
  Tower(const RecordedCase& recorded, const fs::path& weights_file, at::ScalarType type)
      : family_(recorded.json.at("family")), seed_(recorded.json.at("seed")), type_(type) {
    const RecordedTensors inputs = safetensors_fixture(recorded.path / "inputs.safetensors");
    pixels_ = inputs.at("pixel_values").to(type);
    if (inputs.contains("labels")) labels_ = inputs.at("labels");
    for (const auto& [name, tensor] : safetensors_fixture(weights_file)) saved_.set(name, tensor);
    build(json_file(recorded.path / "config.json"));
  }

  const std::string& family() const { return family_; }
  const at::Tensor& pixels() const { return pixels_; }
  const at::Tensor& labels() const { return labels_; }
  const NamedTensors& saved() const { return saved_; }
  const ImageClassifier& network() const { return *network_; }
  bool is_projected() const { return network_->named_parameters().contains("visual_projection.weight"); }
  WeightLayout layout() const { return layout_; }

  at::Tensor probe(const at::Tensor& y) const {
    return 10 * (hash_uniform(seed_, kProbeStream, y.sizes()).to(type_) * y).mean();
  }

  /// The gradient of the weight that the library calls `theirs`, in its shape; undefined where it is none of the
  /// tower's.
  at::Tensor gradient(const std::string& theirs) const {
    // Files of transformers 5 have the names of 4, its modules others.
    for (const WeightLayout layout : {layout_, WeightLayout::kVit5}) {
      const auto ours = our_name(layout, theirs);
      if (!ours) continue;
      if (*ours == "vision_model.embeddings.position_embedding.weight") return gradient_of_positions(theirs);
      const auto* weight = network_->named_parameters().find(*ours);
      if (weight) return weight->grad().reshape(saved_shape(layout, *ours, weight->grad()));
    }
    return {};
  }

 private:
  at::IntArrayRef saved_shape(WeightLayout, const std::string& ours, const at::Tensor& gradient) const {
    const auto theirs = library_name(layout_, ours);
    return theirs && saved_.contains(*theirs) ? saved_.at(*theirs).sizes() : gradient.sizes();
  }

  /// Through the resizing that is part of their forward and of our loading.
  at::Tensor gradient_of_positions(const std::string& theirs) const {
    const at::Tensor theirs_before = saved_.at(theirs).to(type_).detach().requires_grad_();
    const at::Tensor ours = network_->named_parameters()["vision_model.embeddings.position_embedding.weight"];
    const at::Tensor resized = resize_positions(theirs_before.squeeze(), ours.size(0), resize_);
    resized.backward(ours.grad());
    return theirs_before.grad();
  }

  void build(const nlohmann::json& config) {
    layout_ = layout_of(saved_).value();
    const PretrainedConfig shape = pretrained_config(config);
    ImageClassifierOptions options;
    BlockOptions& block = options.tower.block;
    block.hidden_size = shape.hidden_size.value();
    block.intermediate_size = shape.intermediate_size.value();
    block.num_attention_heads = shape.num_attention_heads.value();
    block.hidden_act = shape.hidden_act.value();
    block.layer_norm_eps = shape.layer_norm_eps.value();
    block.fused_qkv = family_ == "timm";
    options.tower.num_hidden_layers = shape.num_hidden_layers.value();
    options.tower.patch_size = shape.patch_size.value();
    options.tower.image_size = pixels_.size(2);
    const bool is_clip = layout_ != WeightLayout::kTimm && layout_ != WeightLayout::kVit;
    options.tower.patch_bias = !is_clip;
    options.tower.norm_before_blocks = is_clip;
    const bool is_projected = is_clip && family_ != "clip_vision";
    if (is_projected) options.projection_dim = shape.projection_dim.value();
    options.projection_bias = layout_ == WeightLayout::kTimmClip;
    options.feature = is_projected ? Feature::kProjected : Feature::kPooled;
    const char* head = layout_ == WeightLayout::kTimm ? "head.weight" : "classifier.weight";
    options.num_classes = saved_.contains(head) ? saved_.at(head).size(0) : 2;
    resize_ = family_ == "timm" ? PositionResize::kBicubicAntialias : PositionResize::kBicubic;
    network_ = std::make_shared<ImageClassifier>(options);
    network_->to(type_);
    const PretrainedReport report = load_pretrained(*network_, saved_, resize_);
    EXPECT_TRUE(report.fits()) << report.misfits();
    load_head();
  }

  void load_head() {
    const torch::NoGradGuard no_graph;
    for (const auto& item : network_->named_parameters()) {
      const auto theirs = library_name(layout_, item.key());
      if (item.key().starts_with("head.") && theirs && saved_.contains(*theirs)) item.value().copy_(saved_.at(*theirs));
    }
  }

  const std::string family_;
  const std::uint64_t seed_;
  const at::ScalarType type_;
  at::Tensor pixels_, labels_;
  NamedTensors saved_;
  WeightLayout layout_{};
  PositionResize resize_{};
  std::shared_ptr<ImageClassifier> network_;
};

/// What enters the first block, then what leaves each.
std::vector<at::Tensor> hidden_states(const VisionTower& tower, const at::Tensor& pixels) {
  std::vector<at::Tensor> states = {tower.embed(pixels)};
  for (const auto& block : tower.blocks()) states.push_back(block->forward(states.back()));
  return states;
}

/// Everything that ours computes, by the names of the records; the scalar whose gradients were recorded as "loss".
RecordedTensors outputs_of(const Tower& tower, const Expectation& expected) {
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
    for (std::size_t i = first; i < hidden.size(); ++i) result[prefix + std::to_string(i - first)] = hidden[i];
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
    // The final norm stands before the class token is taken there, and is the same of each token.
    at::Tensor tokens = torch::empty_like(last);
    for (std::int64_t i = 0; i < last.size(1); ++i) tokens.select(1, i).copy_(network.tower().pool(last.slice(1, i)));
    result["tokens"] = tokens;
    return result;
  }
  if (tower.family() == "timm") {  // CLIP: the head is the projection
    add_hidden("block.", 1);
    result["pooled"] = pooled;
    result["logits"] = network.feature(last);
    result["scalar"] = tower.probe(result["logits"]);
    at::Tensor tokens = torch::empty_like(last);
    for (std::int64_t i = 0; i < last.size(1); ++i) tokens.select(1, i).copy_(network.tower().pool(last.slice(1, i)));
    result["tokens"] = tokens;
    return result;
  }
  const bool is_whole = tower.family() == "clip";
  add_hidden(is_whole ? "vision.hidden." : "hidden.", 0);
  result[is_whole ? "vision.last_hidden_state" : "last_hidden_state"] = last;
  result[is_whole ? "vision.pooled" : "pooled"] = pooled;
  if (!tower.is_projected()) {
    result["scalar"] = tower.probe(pooled);
    return result;
  }
  const at::Tensor features = network.feature(last);
  if (!is_whole) {
    result["image_embeds"] = features;
    result["projected_cls_before_norm"] = network.projected(last.select(1, 0));
    result["scalar"] = tower.probe(features);
    return result;
  }
  // The text half is taken as recorded, so that the loss and its gradients are known.
  result["image_features"] = features;
  const at::Tensor embeds = features / features.norm(2, 1, /*keepdim=*/true);
  result["image_embeds"] = embeds;
  const at::Tensor scale = tower.saved().at("logit_scale").to(features.scalar_type()).exp();
  const at::Tensor per_image = scale * embeds.matmul(expected["text_embeds"].t());
  result["logits_per_image"] = per_image;
  const at::Tensor targets = torch::arange(per_image.size(0));
  result["loss"] = (cross_entropy(per_image, targets) + cross_entropy(per_image.t(), targets)) / 2;
  result["scalar"] = result["loss"];
  return result;
}

bool is_of_text(const std::string& name) {
  return name.find("text") != name.npos || name.ends_with("logit_scale");
}

void compare_in(at::ScalarType type, const RecordedCase& recorded, const fs::path& weights) {
  SCOPED_TRACE(weights.filename().string() + (type == at::kDouble ? " in float64" : " in float32"));
  const Tower tower(recorded, weights, type);
  Expectation expected(safetensors_fixture(recorded.path / "outputs.safetensors"), type);
  const RecordedTensors outputs = outputs_of(tower, expected);
  for (const auto& [name, tensor] : outputs) {
    if (expected.has(name)) expected.expect_near(name, tensor);
  }
  outputs.at("scalar").backward();
  // OpenAI's names are another file's of the same network: its gradients were recorded under the first one's.
  const bool has_gradients = weights.filename() == "model.safetensors";
  for (const std::string& key : expected.uncompared()) {
    const std::string name = key.substr(4);
    if (is_of_text(name)) continue;
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

void compare(const RecordedCase& recorded) {
  for (const char* file : {"model.safetensors", "openai.safetensors"}) {
    if (!fs::exists(recorded.path / file)) continue;
    compare_in(at::kDouble, recorded, recorded.path / file);
    compare_in(at::kFloat, recorded, recorded.path / file);
  }
}

}  // namespace

std::vector<CaseKind> model_cases() {
  static const std::set<std::string> kFamilies = {"clip", "clip_vision", "clip_vision_projection", "vit", "timm"};
  return {{"Models",
           [](const RecordedCase& recorded) {
             return recorded.json.contains("family") && recorded.json["family"].is_string() &&
                    kFamilies.contains(recorded.json["family"].get<std::string>());
           },
           compare}};
}
