#include "tests/parity/recorded_tower.h"

#include "runner/shared/weights/pretrained_config.h"

using namespace stages;

RecordedTower::RecordedTower(const RecordedCase& recorded,
                             const std::filesystem::path& weights_file, at::ScalarType type)
    : family_(recorded.json.at("family")), seed_(recorded.json.at("seed")), type_(type) {
  const RecordedTensors inputs = safetensors_fixture(recorded.path / "inputs.safetensors");
  pixels_ = inputs.at("pixel_values").to(type);
  if (inputs.contains("labels")) labels_ = inputs.at("labels");
  for (const auto& [name, tensor] : safetensors_fixture(weights_file)) saved_.set(name, tensor);
  build(json_file(recorded.path / "config.json"));
}

at::Tensor RecordedTower::probe(const at::Tensor& y) const {
  return 10 * (hash_uniform(seed_, kProbeStream, y.sizes()).to(type_) * y).mean();
}

at::Tensor RecordedTower::gradient(const std::string& theirs) const {
  // Files of transformers 5 use the names of version 4, but its modules do not.
  for (const WeightLayout layout : {layout_, WeightLayout::kVit5}) {
    const auto ours = our_name(layout, theirs);
    if (!ours) continue;
    if (*ours == "vision_model.embeddings.position_embedding.weight")
      return gradient_of_positions(theirs);
    const auto weights = network_->named_parameters();
    const auto* weight = weights.find(*ours);
    if (weight) return weight->grad().reshape(saved_shape(*ours, weight->grad()));
  }
  return {};
}

at::IntArrayRef RecordedTower::saved_shape(const std::string& ours,
                                           const at::Tensor& gradient) const {
  const auto theirs = library_name(layout_, ours);
  return theirs && saved_.contains(*theirs) ? saved_.at(*theirs).sizes() : gradient.sizes();
}

// Includes the resizing, which the library does in its forward pass and we do when loading.
at::Tensor RecordedTower::gradient_of_positions(const std::string& theirs) const {
  const at::Tensor theirs_before = saved_.at(theirs).to(type_).detach().requires_grad_();
  const at::Tensor ours =
      network_->named_parameters()["vision_model.embeddings.position_embedding.weight"];
  const at::Tensor resized = resize_positions(theirs_before.squeeze(), ours.size(0), resize_);
  resized.backward(ours.grad());
  return theirs_before.grad();
}

void RecordedTower::build(const nlohmann::json& config) {
  layout_ = layout_of(saved_).value();
  const runner::PretrainedConfig shape = runner::pretrained_config(config);
  ImageClassifierOptions options;
  BlockOptions& block = options.tower.block;
  block.hidden_size = shape.hidden_size.value();
  block.intermediate_size = shape.intermediate_size.value();
  block.num_attention_heads = shape.num_attention_heads.value();
  block.hidden_act = activation_named(shape.hidden_act.value());
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

void RecordedTower::load_head() {
  const torch::NoGradGuard no_graph;
  for (const auto& item : network_->named_parameters()) {
    const auto theirs = library_name(layout_, item.key());
    if (item.key().starts_with("head.") && theirs && saved_.contains(*theirs))
      item.value().copy_(saved_.at(*theirs));
  }
}
