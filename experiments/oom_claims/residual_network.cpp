#include "experiments/oom_claims/residual_network.h"

#include <cmath>
#include <string>

#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "stages/numerics/recomputable_module.h"

namespace oom_claims {

namespace {

struct Convolution {
  std::int64_t in = 0, out = 0, kernel = 1, stride = 1, groups = 1;
};

}  // namespace

/// A convolution with BatchNorm and, optionally, ReLU.
class ConvolutionAndNorm final : public stages::PrecisionModule {
 public:
  ConvolutionAndNorm(const Convolution& shape, bool is_activated, const at::TensorOptions& options)
      : shape_(shape), is_activated_(is_activated) {
    const auto made = [&](at::IntArrayRef sizes) { return torch::empty(sizes, options); };
    kernel_ = register_parameter(
        "kernel", made({shape.out, shape.in / shape.groups, shape.kernel, shape.kernel}));
    weight_ = register_parameter("weight", made({shape.out}));
    bias_ = register_parameter("bias", made({shape.out}));
    mean_ = register_buffer("running_mean", torch::zeros({shape.out}, options));
    variance_ = register_buffer("running_var", torch::ones({shape.out}, options));
  }
  at::Tensor forward(const at::Tensor& x) const {
    const stages::OwnPrecision own(*this);
    const at::Tensor y = torch::conv2d(x, kernel_, {}, shape_.stride, (shape_.kernel - 1) / 2,
                                       /*dilation=*/1, shape_.groups);
    at::Tensor z =
        torch::batch_norm(y, weight_, bias_, mean_, variance_, is_training(), 0.1, 1e-5, false);
    return is_activated_ ? z.relu_() : z;
  }

 private:
  const Convolution shape_;
  const bool is_activated_;
  at::Tensor kernel_, weight_, bias_, mean_, variance_;
};

/// Multiplies each channel by a gate that is computed from the means of all channels.
class ChannelGate final : public stages::PrecisionModule {
 public:
  ChannelGate(std::int64_t channels, const at::TensorOptions& options) {
    const std::int64_t inner = channels / 16;
    const auto made = [&](at::IntArrayRef sizes) { return torch::empty(sizes, options); };
    down_ = register_parameter("down", made({inner, channels}));
    down_bias_ = register_parameter("down_bias", made({inner}));
    up_ = register_parameter("up", made({channels, inner}));
    up_bias_ = register_parameter("up_bias", made({channels}));
  }
  at::Tensor forward(const at::Tensor& x) const {
    const stages::OwnPrecision own(*this);
    const at::Tensor squeezed = torch::linear(x.mean({2, 3}), down_, down_bias_).relu_();
    return x * torch::linear(squeezed, up_, up_bias_).sigmoid().unsqueeze(2).unsqueeze(3);
  }

 private:
  at::Tensor down_, down_bias_, up_, up_bias_;
};

/// relu(x + f(x)).
class ResidualBlock final : public stages::RecomputableModule {
 public:
  ResidualBlock(std::int64_t in, std::int64_t width, std::int64_t stride,
                const ResidualOptions& network, const at::TensorOptions& options) {
    const std::int64_t out = network.bottleneck ? 4 * width : width, inner = 2 * width;
    const auto layer = [&](const Convolution& shape, bool is_activated) {
      const std::string name = "layer" + std::to_string(layers_.size());
      layers_.push_back(register_module(
          name, std::make_shared<ConvolutionAndNorm>(shape, is_activated, options)));
    };
    if (network.bottleneck) {
      layer({in, inner}, true);
      layer({inner, inner, 3, stride, network.groups}, true);
      layer({inner, out}, false);
      gate_ = register_module("gate", std::make_shared<ChannelGate>(out, options));
    } else {
      layer({in, width, 3, stride}, true);
      layer({width, width, 3}, false);
    }
    if (stride == 1 && in == out) return;
    const Convolution shape{in, out, 1, stride};
    projection_ =
        register_module("projection", std::make_shared<ConvolutionAndNorm>(shape, false, options));
  }
  bool is_block() const override { return true; }

 private:
  at::Tensor compute(const at::Tensor& x) const override {
    const stages::OwnPrecision own(*this);
    at::Tensor y = x;
    for (const auto& layer : layers_) y = layer->forward(y);
    if (gate_) y = gate_->forward(y);
    return y.add_(projection_ ? projection_->forward(x) : x).relu_();
  }

  std::vector<std::shared_ptr<ConvolutionAndNorm>> layers_;
  std::shared_ptr<ChannelGate> gate_;
  std::shared_ptr<ConvolutionAndNorm> projection_;  // null: x unchanged
};

ResidualNetwork::ResidualNetwork(const ResidualOptions& network, const at::TensorOptions& options)
    : pools_(network.pools) {
  const Convolution stem{3, network.width, network.stem_kernel, 2};
  stem_ = register_module("stem", std::make_shared<ConvolutionAndNorm>(stem, true, options));
  std::int64_t in = network.width, width = network.width;
  for (std::size_t stage = 0; stage < network.blocks.size(); ++stage, width *= 2) {
    for (std::int64_t block = 0; block < network.blocks[stage]; ++block) {
      const std::int64_t stride = stage > 0 && block == 0 ? 2 : 1;
      const std::string name = "stage" + std::to_string(stage) + "_" + std::to_string(block);
      blocks_.push_back(register_module(
          name, std::make_shared<ResidualBlock>(in, width, stride, network, options)));
      in = network.bottleneck ? 4 * width : width;
    }
  }
  head_weight_ = register_parameter("head_weight", torch::empty({network.classes, in}, options));
  head_bias_ = register_parameter("head_bias", torch::empty({network.classes}, options));
}

at::Tensor ResidualNetwork::logits(const at::Tensor& images) {
  at::Tensor x = stem_->forward(images);
  if (pools_) x = torch::max_pool2d(x, 3, 2, 1);
  for (const auto& block : blocks_) x = block->forward(x);
  return torch::linear(x.mean({2, 3}), head_weight_, head_bias_);
}

NetworkKind resnet34() {
  return {"ResNet-34", [](const at::TensorOptions& options) {
            return std::make_shared<ResidualNetwork>(ResidualOptions{}, options);
          }};
}

NetworkKind resnet34_without_pooling() {
  return {"ResNet-34 without pooling", [](const at::TensorOptions& options) {
            return std::make_shared<ResidualNetwork>(
                ResidualOptions{.stem_kernel = 5, .pools = false}, options);
          }};
}

NetworkKind se_resnext50() {
  return {"SE-ResNeXt-50", [](const at::TensorOptions& options) {
            return std::make_shared<ResidualNetwork>(
                ResidualOptions{.bottleneck = true, .groups = 32, .classes = 2}, options);
          }};
}

NetworkKind small_residual() {
  return {"two residual blocks", [](const at::TensorOptions& options) {
            return std::make_shared<ResidualNetwork>(
                ResidualOptions{
                    .blocks = {1, 1}, .width = 4, .stem_kernel = 3, .pools = false, .classes = 3},
                options);
          }};
}

void draw_weights(torch::nn::Module& network, std::uint64_t seed) {
  const torch::NoGradGuard no_graph;
  at::Generator generator = at::detail::createCPUGenerator(seed);
  for (at::Tensor& weight : network.parameters()) {
    const bool is_matrix = weight.dim() > 1;
    const double fan_in = is_matrix ? static_cast<double>(weight[0].numel()) : 1;
    weight.normal_(is_matrix ? 0 : 0.5, is_matrix ? 1.5 / std::sqrt(fan_in) : 0.2, generator);
  }
}

}  // namespace oom_claims
