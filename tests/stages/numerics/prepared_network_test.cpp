#include "stages/numerics/prepared_network.h"

#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include "tests/support/convolutional_networks.h"

namespace stages {
namespace {

Numerics numerics(Precision precision, Layout layout = Layout::kContiguous) {
  return {.precision = precision, .tf32 = false, .layout = layout, .layout_rule = {}};
}

TEST(PreparedNetwork, NetworkAndBatchHaveTheLayout) {
  const auto network = conv4();
  const PreparedNetwork prepared(*network, numerics(Precision::kFp32, Layout::kChannelsLast),
                                 at::kCPU);
  for (const at::Tensor& weight : network->parameters()) {
    if (weight.dim() == 4) EXPECT_TRUE(weight.is_contiguous(at::MemoryFormat::ChannelsLast));
  }
  const Batch batch({{"image", torch::zeros({2, 4, 5, 6})}}, 2);
  EXPECT_TRUE(prepared.placed(batch)["image"].is_contiguous(at::MemoryFormat::ChannelsLast));
}

TEST(PreparedNetwork, ProductsUseTf32DuringItsLifetime) {
  const bool before = at::globalContext().allowTF32CuBLAS();
  const auto network = conv4();
  {
    Numerics with_tf32 = numerics(Precision::kFp32);
    with_tf32.tf32 = !before;
    const PreparedNetwork prepared(*network, with_tf32, at::kCPU);
    EXPECT_EQ(at::globalContext().allowTF32CuBLAS(), !before);
  }
  EXPECT_EQ(at::globalContext().allowTF32CuBLAS(), before);
}

TEST(ScopedInference, RunsInThePrecisionWithoutAGraphAndRestoresTheMode) {
  torch::nn::Linear layer(3, 3);
  layer->train();
  const PreparedNetwork prepared(*layer, numerics(Precision::kBf16), at::kCPU);
  {
    const ScopedInference inference(prepared);
    const at::Tensor output = layer->forward(torch::ones({2, 3}));
    EXPECT_EQ(output.scalar_type(), at::kBFloat16);
    EXPECT_FALSE(output.requires_grad());
    EXPECT_FALSE(layer->is_training());
  }
  EXPECT_TRUE(layer->is_training());
  EXPECT_EQ(layer->forward(torch::ones({2, 3})).scalar_type(), at::kFloat);
}

}  // namespace
}  // namespace stages
