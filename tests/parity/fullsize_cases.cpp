// Full-size vision transformers with weights from a formula: outputs, and gradients if the loss
// uses only the vision tower.

#include <algorithm>

#include <torch/types.h>
#include <torch/utils.h>

#include "runner/shared/weights/pretrained_config.h"
#include "stages/model/pretrained.h"
#include "stages/model/vision_tower.h"
#include "tests/parity/formula_weights.h"

namespace {

using namespace stages;
nlohmann::json config_of(const FullModel& model) {
  if (model.library == "timm") return {{"architecture", model.name}, {"num_classes", 0}};
  const bool is_large = model.name == "l14";
  nlohmann::json config = {{"hidden_size", is_large ? 1024 : 768},
                           {"intermediate_size", is_large ? 4096 : 3072},
                           {"num_hidden_layers", is_large ? 24 : 12},
                           {"num_attention_heads", is_large ? 16 : 12},
                           {"patch_size", is_large              ? 14
                                          : model.name == "b32" ? 32
                                                                : 16}};
  config["model_type"] = model.library == "hf_vit" ? "vit" : "clip_vision_model";
  config["projection_dim"] = is_large ? 768 : 512;
  return config;
}

void compare_fullsize(const RecordedCase& recorded) {
  const FullModel model = full_model(recorded);
  const auto seed = recorded.json.at("seed").get<std::uint64_t>();
  const NamedTensors saved = formula_weights(recorded);
  const runner::PretrainedConfig shape = runner::pretrained_config(config_of(model));
  const WeightLayout layout = layout_of(saved).value();
  const bool is_clip = layout != WeightLayout::kTimm && layout != WeightLayout::kVit;
  ImageClassifierOptions options;
  options.tower.block = {shape.hidden_size.value(),
                         shape.intermediate_size.value(),
                         shape.num_attention_heads.value(),
                         activation_named(shape.hidden_act.value()),
                         shape.layer_norm_eps.value(),
                         0,
                         model.library == "timm"};
  options.tower.num_hidden_layers = shape.num_hidden_layers.value();
  options.tower.patch_size = shape.patch_size.value();
  options.tower.image_size = recorded.json.at("size");
  options.tower.patch_bias = !is_clip;
  options.tower.norm_before_blocks = is_clip;
  const char* projection =
      layout == WeightLayout::kTimmClip ? "head.weight" : "visual_projection.weight";
  if (is_clip) options.projection_dim = saved.at(projection).size(0);
  options.projection_bias = layout == WeightLayout::kTimmClip;
  options.feature = is_clip ? Feature::kProjected : Feature::kPooled;
  const char* head = layout == WeightLayout::kTimm ? "head." : "classifier.";
  options.num_classes = is_clip ? 2 : saved.at(std::string(head) + "weight").size(0);
  ImageClassifier network(options);
  const PretrainedReport report = load_pretrained(network, saved, PositionResize::kBicubic);
  ASSERT_TRUE(report.fits()) << report.misfits();
  auto parameters = network.named_parameters();
  const torch::NoGradGuard no_graph;
  for (const char* part : {"weight", "bias"}) {
    if (!is_clip) parameters["head." + std::string(part)].copy_(saved.at(std::string(head) + part));
  }
  network.to(torch::kFloat64);
  const std::int64_t size = options.tower.image_size;
  const at::Tensor pixels =
      2 * hash_uniform(seed, kPixelStream, {recorded.json.at("batch"), 3, size, size});

  const bool is_alone = model.library != "hf_clip";  // no text tower in its loss
  const torch::AutoGradMode graph(is_alone);
  const at::Tensor last = network.tower().forward(pixels);
  const auto& eval = recorded.json.at("f64").at("eval");
  if (!is_alone) {
    const at::Tensor features = network.feature(last);
    if (eval.contains("vision.last_hidden_state"))
      expect_recorded(eval["vision.last_hidden_state"], last, "tokens");
    if (eval.contains("image_embeds"))
      expect_recorded(eval["image_embeds"], features / features.norm(2, 1, true), "embeds");
    return;
  }
  if (eval.contains("pooled"))
    expect_recorded(eval["pooled"], network.tower().pool(last), "pooled");
  const at::Tensor logits =
      is_clip ? network.features(pixels) : network.forward(pixels).at("logits");
  expect_recorded(eval.at("logits"), logits, "logits");
  const auto& train = recorded.json.at("f64").at("train");
  const at::Tensor loss = (hash_uniform(seed, kProbeStream, logits.sizes()) * logits).mean();
  EXPECT_NEAR(loss.item<double>(), train.at("loss"), 1e-9);
  loss.backward();
  // A gradient that is zero in exact arithmetic, such as that of a key's bias, is only rounding.
  double largest = 0;
  for (const auto& [name, norm] : train.at("grad_norm").items())
    largest = std::max(largest, norm.get<double>());
  const double floor = 1e-12 * largest;
  std::size_t compared = 0;
  for (const auto& item : network.named_parameters()) {
    auto theirs = library_name(layout, item.key());
    // Modules in transformers 5 have different names than its files.
    if (theirs && !train.at("grad_norm").contains(*theirs))
      theirs = library_name(WeightLayout::kVit5, item.key());
    if (!theirs || !train["grad_norm"].contains(*theirs)) continue;
    const double norm = train["grad_norm"][*theirs];
    EXPECT_NEAR(item.value().grad().norm().item<double>(), norm, std::max(1e-9 * norm, floor))
        << *theirs;
    EXPECT_NEAR(item.value().grad().flatten()[0].item<double>(), train.at("grad_first").at(*theirs),
                1e-9)
        << *theirs;
    ++compared;
  }
  EXPECT_EQ(compared, network.parameters().size() - (is_clip ? 2 : 0));  // our own head
}

}  // namespace

std::vector<CaseKind> fullsize_cases() {
  return {{"FullSize",
           [](const RecordedCase& recorded) {
             const FullModel model = full_model(recorded);
             return model.library == "hf_clip" || model.library == "hf_vit" ||
                    (model.library == "timm" && model.name.starts_with("vit_"));
           },
           compare_fullsize}};
}
