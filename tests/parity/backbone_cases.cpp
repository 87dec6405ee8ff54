// Full-size convolutional networks with weights from a formula, compared with timm: outputs,
// gradients, and the statistics of batch norm after one step.

#include <algorithm>

#include <torch/types.h>
#include <torch/utils.h>

#include "stages/model/convolutional_classifier.h"
#include "stages/model/timm_weights.h"
#include "tests/parity/formula_weights.h"

namespace {

using namespace stages;

std::shared_ptr<FeatureMaps> loaded_backbone(const std::string& name, const NamedTensors& saved) {
  const auto architectures = convolutional_architectures();
  const auto found =
      std::ranges::find(architectures, name, [](const auto& item) { return item.first; });
  auto network = make_backbone(found->second, at::kDouble);
  TimmWeightPlaces places(*network, saved);
  EXPECT_TRUE(places.report().fits()) << places.report().misfits();
  EXPECT_EQ(places.report().taken + static_cast<std::int64_t>(places.report().left_out.size()),
            static_cast<std::int64_t>(saved.size()));
  const torch::NoGradGuard no_graph;
  const WeightSink sink = places.sink();
  for (const auto& [tensor, numbers] : saved) {
    if (sink.wants(tensor)) sink.take({tensor, 0, numbers.flatten()});
  }
  return network;
}

/// Features, pooled features and logits of the given pixels.
NamedTensors outputs_of_backbone(const FeatureMaps& network, const at::Tensor& pixels,
                                 const NamedTensors& saved) {
  const at::Tensor maps = network.forward(pixels);
  const at::Tensor pooled = maps.mean({2, 3});
  const std::string head = saved.contains("fc.weight") ? "fc." : "classifier.";
  const at::Tensor logits = torch::linear(pooled, saved.at(head + "weight").to(at::kDouble),
                                          saved.at(head + "bias").to(at::kDouble));
  return {{"features", maps}, {"pooled", pooled}, {"logits", logits}};
}

void expect_outputs(const nlohmann::json& expected, const NamedTensors& actual) {
  for (const auto& [name, numbers] : expected.items())
    expect_recorded(numbers, actual.at(name).detach(), name);
}

void compare_training(const nlohmann::json& train, FeatureMaps& network,
                      const NamedTensors& outputs, std::uint64_t seed) {
  expect_outputs(train.at("outputs"), outputs);
  const at::Tensor& logits = outputs.at("logits");
  const at::Tensor loss = (hash_uniform(seed, kProbeStream, logits.sizes()) * logits).mean();
  EXPECT_NEAR(loss.item<double>(), train.at("loss"), 1e-9);
  loss.backward();
  for (const auto& item : network.named_buffers()) {
    for (const char* kind : {"running_mean", "running_var"}) {
      if (!item.key().ends_with(kind)) continue;
      const double norm = train.at(std::string(kind) + "_norm").at(item.key());
      EXPECT_NEAR(item.value().norm().item<double>(), norm, 1e-9 * norm) << item.key();
    }
  }
  double largest = 0;
  for (const auto& [name, norm] : train.at("grad_norm").items())
    largest = std::max(largest, norm.get<double>());
  for (const auto& item : network.named_parameters()) {
    const double norm = train["grad_norm"].at(item.key());
    const at::Tensor& gradient = item.value().grad();
    EXPECT_NEAR(gradient.norm().item<double>(), norm, 1e-9 * std::max(norm, 1e-3 * largest))
        << item.key();
    EXPECT_NEAR(gradient.flatten()[0].item<double>(), train.at("grad_first").at(item.key()), 1e-9)
        << item.key();
  }
}

void compare_backbone(const RecordedCase& recorded) {
  const auto seed = recorded.json.at("seed").get<std::uint64_t>();
  const std::int64_t batch = recorded.json.at("batch"), size = recorded.json.at("size");
  const bool is_sine = recorded.json.at("rule") == "sine-2.2";
  const at::Tensor pixels = is_sine ? (torch::arange(batch * 3 * size * size, at::kDouble) * 0.01)
                                          .sin()
                                          .view({batch, 3, size, size})
                                    : 2 * hash_uniform(seed, kPixelStream, {batch, 3, size, size});
  const NamedTensors saved = formula_weights(recorded);
  const auto network = loaded_backbone(full_model(recorded).name, saved);
  const auto& expected = recorded.json.at("f64");
  network->eval();
  {
    const torch::NoGradGuard no_graph;
    expect_outputs(expected.at("eval"), outputs_of_backbone(*network, pixels, saved));
  }
  if (!expected.contains("train")) return;
  network->train();
  compare_training(expected["train"], *network, outputs_of_backbone(*network, pixels, saved), seed);
}

}  // namespace

std::vector<CaseKind> backbone_cases() {
  return {{"Backbone",
           [](const RecordedCase& recorded) {
             const FullModel model = full_model(recorded);
             const auto architectures = convolutional_architectures();
             return model.library == "timm" &&
                    std::ranges::any_of(architectures,
                                        [&](const auto& item) { return item.first == model.name; });
           },
           compare_backbone}};
}
