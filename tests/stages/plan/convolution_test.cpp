// Checks the planned memory of convolutions, and of the layers between them, against what the CPU
// actually allocates.

#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "stages/machine/counting_allocator.h"
#include "stages/plan/memory_trace.h"
#include "stages/plan/meta_kernels.h"
#include "stages/plan/summarize.h"
#include "tests/support/counted_as_planned.h"
#include "tests/support/scoped_threads.h"
#include "tests/support/traced_tower.h"

namespace stages {
namespace {

/// Creates tensors on a device, runs a step with them and frees them.
using Work = std::function<void(at::Device)>;

/// Returns the memory of the second of two runs.
std::int64_t counted_bytes(const Work& work) {
  work(at::kCPU);  // allocates what kernels cache
  const CountingAllocator counter;
  work(at::kCPU);
  return counter.peak_bytes();
}

runner::MemoryPlan plan_of_work(const Work& work, int threads) {
  register_meta_kernels();
  const Backend backend{.threads = threads, .model = {}};
  const MemoryTrace trace(backend);
  work(at::kMeta);
  return summarize(trace, 0, backend, {});
}

/// Returns the peak of live bytes, including the scratch memory of kernels.
std::int64_t with_scratch(const Work& work) {
  register_meta_kernels();
  const MemoryTrace trace({.threads = 1, .model = {}});
  work(at::kMeta);
  return peak_of(trace);
}

/// Compares a plan with the counted memory, on any processor.
void expect_as_planned(const Work& work, int threads, double share, const std::string& what) {
  const ScopedThreads some(threads);
  expect_counted_as_planned(counted_bytes(work), plan_of_work(work, threads), share, what);
}

struct Layer {
  std::string name;
  std::int64_t batch, in, out, side, kernel, stride, groups;
  bool channels_last = false;
  at::ScalarType type = at::kFloat;
  bool is_padded = true;
};

void PrintTo(const Layer& layer, std::ostream* stream) { *stream << layer.name; }

/// A convolution and both of its gradients.
Work step_of(const Layer& layer) {
  return [layer](at::Device device) {
    const auto format =
        layer.channels_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
    const auto make = [&](at::IntArrayRef shape) {
      at::Tensor result = torch::empty(shape, at::TensorOptions(device).dtype(layer.type), format);
      if (device.is_cpu()) result.zero_();
      return result;
    };
    const at::Tensor x = make({layer.batch, layer.in, layer.side, layer.side}).requires_grad_(true);
    const at::Tensor weight =
        make({layer.out, layer.in / layer.groups, layer.kernel, layer.kernel}).requires_grad_(true);
    const at::Tensor y = torch::conv2d(x, weight, {}, layer.stride,
                                       layer.is_padded ? layer.kernel / 2 : 0, 1, layer.groups);
    y.backward(torch::empty_like(y));
  };
}

class ConvolutionTest : public testing::TestWithParam<Layer> {};

// For a single convolution, nearly all of the memory may belong to the kernel, which chooses the
// amount.
TEST_P(ConvolutionTest, IsBounded) {
  for (const int threads : {1, 2, 4})
    expect_as_planned(step_of(GetParam()), threads, /*share=*/0,
                      std::to_string(threads) + " threads");
}

/// Tests each type.
std::vector<Layer> layers() {
  const Layer all[] = {{"of_three", 4, 64, 64, 14, 3, 1, 1},
                       {"of_three_last", 4, 64, 64, 14, 3, 1, 1, true},
                       {"strided", 4, 64, 128, 14, 3, 2, 1},
                       {"strided_last", 4, 64, 128, 14, 3, 2, 1, true},
                       {"pointwise", 4, 64, 64, 14, 1, 1, 1},
                       {"pointwise_last", 4, 64, 64, 14, 1, 1, 1, true},
                       {"pointwise_strided", 4, 64, 128, 14, 1, 2, 1},
                       {"grouped", 4, 64, 64, 14, 3, 1, 16},
                       {"grouped_last", 4, 64, 64, 14, 3, 1, 16, true},
                       {"depthwise", 4, 64, 64, 14, 3, 1, 64},
                       {"large", 4, 64, 64, 28, 3, 1, 1},
                       {"large_last", 4, 64, 64, 28, 3, 1, 1, true},
                       {"odd_channels", 4, 20, 40, 14, 3, 1, 1},
                       {"first", 8, 3, 32, 32, 3, 1, 1},
                       {"first_strided", 8, 3, 64, 64, 7, 2, 1},
                       {"patches", 8, 3, 64, 64, 16, 16, 1},
                       {"patches_last", 8, 3, 64, 64, 16, 16, 1, true},
                       {"small", 1, 16, 16, 8, 3, 1, 1},
                       {"whole_wide_image", 2, 512, 256, 7, 7, 1, 1, false, at::kFloat, false},
                       {"whole_image", 4, 64, 256, 7, 7, 1, 1, false, at::kFloat, false},
                       {"whole_image_last", 4, 64, 256, 7, 7, 1, 1, true, at::kFloat, false}};
  std::vector<Layer> result;
  for (Layer layer : all) {
    result.push_back(layer);
    for (const at::ScalarType type : {at::kBFloat16, at::kHalf, at::kDouble}) {
      layer.type = type;
      result.push_back(layer);
      result.back().name += std::string("_") + c10::toString(type);
    }
  }
  return result;
}

INSTANTIATE_TEST_SUITE_P(Layers, ConvolutionTest, testing::ValuesIn(layers()),
                         [](const auto& info) { return info.param.name; });

/// Two blocks of convolution, normalization, activation and pooling, the last two in either order,
/// and a classifier.
Work small_network(bool channels_last, bool pools_first = false) {
  return [channels_last, pools_first](at::Device device) {
    const auto format =
        channels_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
    const auto make = [&](at::IntArrayRef shape) {
      at::Tensor result = torch::empty(shape, at::TensorOptions(device));
      if (device.is_cpu()) result.fill_(0.01);
      return shape.size() == 4 ? result.contiguous(format) : result;
    };
    const auto weight = [&](at::IntArrayRef shape) { return make(shape).requires_grad_(true); };
    at::Tensor x = make({8, 3, 32, 32});
    at::Tensor labels = torch::empty({8}, at::TensorOptions(device).dtype(torch::kLong));
    if (device.is_cpu()) labels.zero_();
    std::vector<at::Tensor> parameters;
    for (const std::int64_t in : {3, 32}) {
      parameters = {weight({32, in, 3, 3}), weight({32}), weight({32}), make({32}), make({32})};
      x = torch::conv2d(x, parameters[0], {}, 1, 1);
      x = torch::batch_norm(x, parameters[1], parameters[2], parameters[3], parameters[4],
                            /*training=*/true, 0.1, 1e-5,
                            /*cudnn_enabled=*/true);
      x = pools_first ? torch::max_pool2d(x, 2).relu_() : torch::max_pool2d(x.relu(), 2);
    }
    const at::Tensor pooled = torch::adaptive_avg_pool2d(x, {1, 1}).flatten(1),
                     last = weight({5, 32});
    at::cross_entropy_loss(torch::linear(pooled, last), labels).backward();
  };
}

TEST(ConvolutionalNetwork, IsBounded) {
  for (const bool channels_last : {false, true}) {
    for (const int threads : {1, 2}) {
      expect_as_planned(small_network(channels_last), threads, 1 / 1.35,
                        std::string(channels_last ? "channels_last, " : "contiguous, ") +
                            std::to_string(threads) + " threads");
    }
  }
}

// If pooling directly follows the normalization, the peak is in the backward pass of the latter.
TEST(ConvolutionalNetwork, SecondResultOfTheNormalizationIsCounted) {
  for (const bool channels_last : {false, true}) {
    const Work work = small_network(channels_last, /*pools_first=*/true);
    constexpr std::int64_t kMap = 8 * 32 * 32 * 32 * 4;
    const std::int64_t beyond = counted_bytes(work) - plan_of_work(work, 1).live;
    EXPECT_GE(beyond, 0) << (channels_last ? "last" : "contiguous");
    EXPECT_LT(beyond, kMap) << "no map is missing from the plan"
                            << (channels_last ? ", last" : ", contiguous");
  }
}

/// Operators that recipes use outside of towers. They run on Meta, forward and backward, and need
/// the same memory as on the CPU.
TEST(OtherOperators, NeedTheMemoryOfTheCpuKernels) {
  struct Operator {
    const char* name;
    std::function<at::Tensor(const at::Tensor&)> run;  // with an input of (64, 32)
  };
  const Operator operators[] = {
      {"relu", [](const at::Tensor& x) { return x.relu(); }},
      {"hardtanh", [](const at::Tensor& x) { return torch::hardtanh(x, 0, 6); }},
      {"hardswish", [](const at::Tensor& x) { return torch::hardswish(x); }},
      {"abs", [](const at::Tensor& x) { return x.abs(); }},
      {"silu", [](const at::Tensor& x) { return torch::silu(x); }},
      {"norm", [](const at::Tensor& x) { return x / x.norm(2, 1, true); }},
      {"group_norm",
       [](const at::Tensor& x) {
         return torch::group_norm(x.view({8, 8, 32}), 2);
       }},
      {"bce",
       [](const at::Tensor& x) {
         return torch::binary_cross_entropy_with_logits(x, torch::empty_like(x).detach());
       }},
      {"mse",
       [](const at::Tensor& x) { return torch::mse_loss(x, torch::empty_like(x).detach()); }},
      {"flip", [](const at::Tensor& x) { return x.flip({1}); }},
      {"of_two_types",
       [](const at::Tensor& x) { return x.to(torch::kBFloat16) + x * x.to(torch::kBFloat16); }},
      {"gram", [](const at::Tensor& x) { return x.mm(x.t()).square(); }},
      {"embedding",
       [](const at::Tensor& x) {
         return torch::embedding(
             x, torch::zeros({100}, at::TensorOptions(x.device()).dtype(torch::kLong)));
       }},
  };
  for (const Operator& one : operators) {
    const Work work = [&](at::Device device) {
      at::Tensor x = torch::empty({64, 32}, at::TensorOptions(device));
      if (device.is_cpu()) x.fill_(0.5);
      const at::Tensor weight =
          torch::empty({64, 32}, at::TensorOptions(device)).requires_grad_(true);
      one.run(x + weight).sum().backward();
    };
    EXPECT_NEAR(static_cast<double>(with_scratch(work)) / static_cast<double>(counted_bytes(work)),
                1, 0.04)
        << one.name;
  }
}

}  // namespace
}  // namespace stages
