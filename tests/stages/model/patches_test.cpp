#include "stages/model/layers.h"

#include <vector>

#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/types.h>

#include "stages/plan/recorder.h"

namespace stages {
namespace {

at::Tensor noise(at::IntArrayRef shape, std::uint64_t seed) {
  return torch::randn(shape, at::detail::createCPUGenerator(seed), torch::kDouble)
      .requires_grad_(true);
}

TEST(PatchesTest, ConvolutionMatchesTorchIncludingGradients) {
  for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
    for (const bool with_bias : {false, true}) {
      for (const std::int64_t width : {12, 14}) {  // of 14 columns, two are in no patch
        const auto placed = [&](const at::Tensor& x) {
          return x.detach().contiguous(format).requires_grad_(true);
        };
        std::vector<at::Tensor> inputs = {placed(noise({2, 3, 8, width}, 1)),
                                          placed(noise({5, 3, 4, 4}, 2))};
        if (with_bias) inputs.push_back(noise({5}, 3));
        const at::Tensor bias = with_bias ? inputs[2] : at::Tensor();
        const at::Tensor ours = convolved_patches(inputs[0], inputs[1], bias),
                         theirs = torch::conv2d(inputs[0], inputs[1], bias, 4);
        ASSERT_EQ(ours.sizes(), theirs.sizes());
        EXPECT_TRUE(ours.allclose(theirs, 1e-12, 1e-12));
        const at::Tensor dy = noise(ours.sizes(), 4).detach();
        const auto by_ours = torch::autograd::grad({ours}, inputs, {dy}),
                   by_theirs = torch::autograd::grad({theirs}, inputs, {dy});
        for (std::size_t i = 0; i < inputs.size(); ++i)
          EXPECT_TRUE(by_ours[i].allclose(by_theirs[i], 1e-12, 1e-12))
              << i << " " << format << " " << width;
      }
    }
  }
}

TEST(PatchesTest, OnlyTheImagesAreSaved) {
  const at::Tensor x = noise({2, 3, 8, 8}, 1).detach(), weight = noise({5, 3, 4, 4}, 2);
  std::vector<const void*> kept;
  const ScopedSavedTensors saved(
      [&](const at::Tensor& tensor) { kept.push_back(tensor.const_data_ptr()); });
  convolved_patches(x, weight, {});
  EXPECT_EQ(kept, std::vector<const void*>{x.const_data_ptr()});
}

}  // namespace
}  // namespace stages
