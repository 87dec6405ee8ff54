#include "stages/model/inverted_residual_network.h"

#include <string>

#include <torch/nn/modules/container/modulelist.h>
#include <torch/types.h>

namespace stages {
namespace {

constexpr std::int64_t kSqueezeRatio = 4, kPixelsOfLastMapped = 32;

std::shared_ptr<Convolution> convolution_of(const ConvolutionSizes& sizes, const at::TensorOptions& options) {
  return std::make_shared<Convolution>(sizes, options);
}

std::shared_ptr<BatchNorm> inverted_norm(std::int64_t channels, const at::TensorOptions& options) {
  return std::make_shared<BatchNorm>(channels, BatchNormStatistics::kCollected, options);
}

/// SiLU or ReLU6, in place where the gradient allows it.
at::Tensor activated(at::Tensor x, bool is_silu) { return is_silu ? torch::silu(x) : torch::hardtanh_(x, 0, 6); }

}  // namespace

InvertedResidualOptions InvertedResidualOptions::mobile_net_v2() {
  return {
      .stages =
          {{1, 3, 1, 16}, {2, 3, 2, 24}, {3, 3, 2, 32}, {4, 3, 2, 64}, {3, 3, 1, 96}, {3, 3, 2, 160}, {1, 3, 1, 320}},
      .head = 1280};
}

InvertedResidualOptions InvertedResidualOptions::efficient_net_b2() {
  return {
      .stages =
          {{2, 3, 1, 16}, {3, 3, 2, 24}, {3, 5, 2, 48}, {4, 3, 2, 88}, {4, 5, 1, 120}, {5, 5, 2, 208}, {2, 3, 1, 352}},
      .head = 1408,
      .is_efficient_net = true};
}

InvertedResidual::InvertedResidual(const InvertedResidualSizes& sizes, const at::TensorOptions& options)
    : is_silu_(sizes.is_efficient_net), adds_input_(sizes.stride == 1 && sizes.in == sizes.out) {
  const bool widens = sizes.expansion > 1;
  const std::int64_t inside = sizes.in * sizes.expansion;
  int norms = 0;
  const auto add_norm = [&](std::int64_t channels) {
    return register_module("bn" + std::to_string(++norms), inverted_norm(channels, options));
  };
  if (widens) {
    widen_ = register_module("conv_pw", convolution_of({.in = sizes.in, .out = inside, .size = 1}, options));
    widen_norm_ = add_norm(inside);
  }
  depthwise_ = register_module("conv_dw", convolution_of({.in = inside,
                                                          .out = inside,
                                                          .size = sizes.size,
                                                          .stride = sizes.stride,
                                                          .padding = sizes.size / 2,
                                                          .groups = inside},
                                                         options));
  depthwise_norm_ = add_norm(inside);
  if (sizes.is_efficient_net) {
    const SqueezeExcitationStyle style{.squeeze = "conv_reduce", .excite = "conv_expand", .is_silu = true};
    se_ = register_module("se", std::make_shared<SqueezeExcitation>(
                                    SqueezeExcitationSizes{inside, sizes.in / kSqueezeRatio}, style, options));
  }
  narrow_ = register_module(widens ? "conv_pwl" : "conv_pw",
                            convolution_of({.in = inside, .out = sizes.out, .size = 1}, options));
  narrow_norm_ = add_norm(sizes.out);
}

at::Tensor InvertedResidual::compute(const at::Tensor& input) const {
  const OwnPrecision own(*this);
  const at::Tensor x = own(input);
  at::Tensor y = widen_ ? activated(widen_norm_->forward(widen_->forward(x)), is_silu_) : x;
  y = activated(depthwise_norm_->forward(depthwise_->forward(y)), is_silu_);
  if (se_) y = y * se_->forward(y);
  y = narrow_norm_->forward(narrow_->forward(y));
  if (!adds_input_) return y;
  return y.scalar_type() == x.scalar_type() ? y.add_(x) : y + x;
}

InvertedResidualNetwork::InvertedResidualNetwork(const InvertedResidualOptions& network,
                                                 const at::TensorOptions& options)
    : options_(network),
      conv_stem_(register_module(
          "conv_stem", convolution_of({.in = 3, .out = network.stem, .size = 3, .stride = 2, .padding = 1}, options))),
      bn1_(register_module("bn1", inverted_norm(network.stem, options))) {
  const auto stages = register_module("blocks", std::make_shared<torch::nn::ModuleListImpl>());
  std::int64_t in = network.stem;
  for (std::size_t number = 0; number < network.stages.size(); ++number) {
    const InvertedResidualStage& stage = network.stages[number];
    const auto list = std::make_shared<torch::nn::ModuleListImpl>();
    for (std::int64_t block = 0; block < stage.blocks; ++block) {
      blocks_.push_back(
          std::make_shared<InvertedResidual>(InvertedResidualSizes{.in = in,
                                                                   .expansion = number == 0 ? 1 : network.expansion,
                                                                   .out = stage.out,
                                                                   .size = stage.size,
                                                                   .stride = block == 0 ? stage.stride : 1,
                                                                   .is_efficient_net = network.is_efficient_net},
                                             options));
      list->push_back(blocks_.back());
      in = stage.out;
    }
    stages->push_back(list);
  }
  conv_head_ = register_module("conv_head", convolution_of({.in = in, .out = network.head, .size = 1}, options));
  bn2_ = register_module("bn2", inverted_norm(network.head, options));
}

at::Tensor InvertedResidualNetwork::forward(const at::Tensor& images) const {
  const OwnPrecision own(*this);
  const bool is_silu = options_.is_efficient_net;
  at::Tensor x = activated(bn1_->forward(conv_stem_->forward(own(images))), is_silu);
  for (const auto& block : blocks_) x = block->forward(x);
  return activated(bn2_->forward(conv_head_->forward(x)), is_silu);
}

std::optional<MapShape> InvertedResidualNetwork::shape(std::int64_t height, std::int64_t width) const {
  const auto pixels = [](std::int64_t size) { return (size + kPixelsOfLastMapped - 1) / kPixelsOfLastMapped; };
  return MapShape{options_.head, pixels(height), pixels(width)};
}

}  // namespace stages
