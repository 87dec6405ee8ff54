#include "stages/model/coral_layer.h"

#include <gtest/gtest.h>
#include <torch/types.h>

namespace stages {
namespace {

std::shared_ptr<CoralLayer> layer_of(std::int64_t in, std::int64_t outputs) {
  auto layer = std::make_shared<CoralLayer>(in, outputs, at::kFloat);
  const torch::NoGradGuard no_graph;
  for (at::Tensor parameter : layer->parameters()) parameter.normal_();
  return layer;
}

TEST(CoralLayer, OutputsShareTheirWeights) {
  const auto layer = layer_of(4, 3);
  const at::Tensor x = torch::randn({5, 4}), outputs = layer->forward(x);
  EXPECT_EQ(layer->weight.sizes(), at::IntArrayRef({1, 4}));
  EXPECT_EQ(outputs.sizes(), at::IntArrayRef({5, 3}));
  EXPECT_TRUE(torch::allclose(outputs - layer->bias, (outputs - layer->bias).narrow(1, 0, 1)));
}

TEST(CoralLayer, RepeatedWeightsFormAnOrdinaryLayer) {
  const auto layer = layer_of(4, 3);
  const at::Tensor x = torch::randn({5, 4}), before = layer->forward(x);
  repeat_coral_weights(*layer);
  EXPECT_EQ(layer->weight.sizes(), at::IntArrayRef({3, 4}));
  EXPECT_TRUE(torch::allclose(torch::linear(x, layer->weight, layer->bias), before));
  EXPECT_TRUE(torch::allclose(layer->forward(x), before));
}

TEST(CoralLayer, BiasesStartDescending) {
  const auto layer = layer_of(4, 4);
  start_coral_biases(*layer);
  EXPECT_TRUE(layer->bias.equal(torch::tensor({1.0F, 0.75F, 0.5F, 0.25F})));
}

TEST(CoralLayer, OnlyCoralSharesWeights) {
  EXPECT_EQ(classifier_layer(4, 3, OrdinalHead::kCoral, at::kFloat)->weight.size(0), 1);
  for (const OrdinalHead head : {OrdinalHead::kNone, OrdinalHead::kCorn})
    EXPECT_EQ(classifier_layer(4, 3, head, at::kFloat)->weight.size(0), 3);
}

}  // namespace
}  // namespace stages
