// Convolutions and what stands between them: what a dry run says they take at their peak, beside what the CPU's take.

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "stages/machine/counting_allocator.h"
#include "stages/trace/memory_trace.h"
#include "stages/trace/meta_kernels.h"
#include "tests/support/traced_tower.h"

namespace stages {
namespace {

bool has_modelled_kernels() { return at::get_cpu_capability() == "AVX512" && at::globalContext().hasMKLDNN(); }

/// Makes tensors on a device, runs a step with them and lets them go.
using Work = std::function<void(at::Device)>;

/// Of the predicted peak by the measured one.
double error(const Work& work, int threads) {
  const int before = at::get_num_threads();
  at::set_num_threads(threads);
  work(at::kCPU);  // what a kernel keeps is there from then on
  std::int64_t measured = 0;
  {
    const CountingAllocator counter;
    work(at::kCPU);
    measured = counter.peak_bytes();
  }
  at::set_num_threads(before);
  register_meta_kernels();
  const MemoryTrace trace({.threads = threads, .model = {}});
  work(at::kMeta);
  return static_cast<double>(peak_of(trace)) / static_cast<double>(measured) - 1;
}

struct Layer {
  std::string name;
  std::int64_t batch, in, out, side, kernel, stride, groups;
  bool channels_last = false;
};

void PrintTo(const Layer& layer, std::ostream* stream) { *stream << layer.name; }

/// A convolution and both of its gradients.
Work step_of(const Layer& layer) {
  return [layer](at::Device device) {
    const auto format = layer.channels_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
    const auto make = [&](at::IntArrayRef shape) {
      at::Tensor result = torch::empty(shape, at::TensorOptions(device), format);
      if (device.is_cpu()) result.zero_();
      return result;
    };
    const at::Tensor x = make({layer.batch, layer.in, layer.side, layer.side}).requires_grad_(true);
    const at::Tensor weight =
        make({layer.out, layer.in / layer.groups, layer.kernel, layer.kernel}).requires_grad_(true);
    const at::Tensor y = torch::conv2d(x, weight, {}, layer.stride, layer.kernel / 2, 1, layer.groups);
    y.backward(torch::empty_like(y));
  };
}

class ConvolutionTest : public testing::TestWithParam<Layer> {};

TEST_P(ConvolutionTest, ThePeakIsPredicted) {
  if (!has_modelled_kernels()) GTEST_SKIP() << "another CPU's kernels";
  for (const int threads : {1, 2, 4}) {
    EXPECT_LT(std::abs(error(step_of(GetParam()), threads)), 0.04) << "with " << threads << " threads";
  }
}

INSTANTIATE_TEST_SUITE_P(
    Layers, ConvolutionTest,
    testing::Values(Layer{"of_three", 4, 64, 64, 14, 3, 1, 1}, Layer{"of_three_last", 4, 64, 64, 14, 3, 1, 1, true},
                    Layer{"strided", 4, 64, 128, 14, 3, 2, 1}, Layer{"pointwise", 4, 64, 64, 14, 1, 1, 1},
                    Layer{"pointwise_last", 4, 64, 64, 14, 1, 1, 1, true},
                    Layer{"pointwise_strided", 4, 64, 128, 14, 1, 2, 1}, Layer{"grouped", 4, 64, 64, 14, 3, 1, 16},
                    Layer{"grouped_last", 4, 64, 64, 14, 3, 1, 16, true}, Layer{"depthwise", 4, 64, 64, 14, 3, 1, 64},
                    Layer{"large", 4, 64, 64, 28, 3, 1, 1}, Layer{"large_last", 4, 64, 64, 28, 3, 1, 1, true}),
    [](const auto& info) { return info.param.name; });

/// Two blocks of convolution, normalisation, activation and pooling, and a classifier.
Work small_network(bool channels_last) {
  return [channels_last](at::Device device) {
    const auto format = channels_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
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
      x = torch::batch_norm(x, parameters[1], parameters[2], parameters[3], parameters[4], /*training=*/true, 0.1, 1e-5,
                            /*cudnn_enabled=*/true);
      x = torch::max_pool2d(x.relu(), 2);
    }
    const at::Tensor pooled = torch::adaptive_avg_pool2d(x, {1, 1}).flatten(1), last = weight({5, 32});
    at::cross_entropy_loss(torch::linear(pooled, last), labels).backward();
  };
}

TEST(ConvolutionalNetwork, ThePeakIsPredicted) {
  if (!has_modelled_kernels()) GTEST_SKIP() << "another CPU's kernels";
  for (const bool channels_last : {false, true}) {
    for (const int threads : {1, 2}) {
      EXPECT_LT(std::abs(error(small_network(channels_last), threads)), 0.04)
          << (channels_last ? "channels_last" : "contiguous") << ", " << threads << " threads";
    }
  }
}

/// Operators that recipes use besides those of towers: they run on Meta, forward and backward, and take what they do on
/// the CPU.
TEST(OtherOperators, TakeWhatTheCpusDo) {
  struct Operator {
    const char* name;
    std::function<at::Tensor(const at::Tensor&)> run;  // of (64, 32)
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
       [](const at::Tensor& x) { return torch::binary_cross_entropy_with_logits(x, torch::empty_like(x).detach()); }},
      {"mse", [](const at::Tensor& x) { return torch::mse_loss(x, torch::empty_like(x).detach()); }},
      {"flip", [](const at::Tensor& x) { return x.flip({1}); }},
      {"gram", [](const at::Tensor& x) { return x.mm(x.t()).square(); }},
      {"embedding",
       [](const at::Tensor& x) {
         return torch::embedding(x, torch::zeros({100}, at::TensorOptions(x.device()).dtype(torch::kLong)));
       }},
  };
  for (const Operator& one : operators) {
    const Work work = [&](at::Device device) {
      at::Tensor x = torch::empty({64, 32}, at::TensorOptions(device));
      if (device.is_cpu()) x.fill_(0.5);
      const at::Tensor weight = torch::empty({64, 32}, at::TensorOptions(device)).requires_grad_(true);
      one.run(x + weight).sum().backward();
    };
    EXPECT_LT(std::abs(error(work, 1)), 0.04) << one.name;
  }
}

}  // namespace
}  // namespace stages
