#include "stages/model/bottleneck_network.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string>

#include <torch/autograd.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "stages/model/linear_layer.h"
#include "stages/numerics/sharded_build.h"
#include "stages/tensor/parallel.h"

namespace stages {
namespace {

constexpr std::int64_t kExpansion = 4, kReferencePlanes = 64, kPixelsOfLastMap = 32;

std::shared_ptr<BatchNorm> collecting_norm(std::int64_t channels,
                                           const at::TensorOptions& options) {
  return std::make_shared<BatchNorm>(channels, BatchNormStatistics::kCollected, options);
}

/// Returns the width of a gate: the multiple of 8 nearest to `channels / ratio`, at least 8.
std::int64_t squeezed_width(std::int64_t channels, std::int64_t ratio) {
  constexpr std::int64_t kMultiple = 8;
  const std::int64_t doubled =
      2 * channels / ratio;  // twice the width, to round to the nearest multiple
  return std::max(kMultiple, (doubled + kMultiple) / (2 * kMultiple) * kMultiple);
}

BottleneckSizes sizes_of_stage(const BottleneckOptions& network, std::size_t stage) {
  const std::int64_t planes = network.planes << stage, out = kExpansion * planes;
  return {.width = std::max<std::int64_t>(1, planes * network.base_width / kReferencePlanes) *
                   network.cardinality,
          .out = out,
          .groups = network.cardinality,
          .squeezed = network.squeeze_ratio > 0 ? squeezed_width(out, network.squeeze_ratio) : 0};
}

}  // namespace

Bottleneck::Bottleneck(const BottleneckSizes& sizes, const at::TensorOptions& options) {
  const auto add = [&](const std::string& number, std::shared_ptr<Convolution>& convolution,
                       std::shared_ptr<BatchNorm>& norm, const ConvolutionSizes& shape) {
    convolution = register_module("conv" + number, std::make_shared<Convolution>(shape, options));
    norm = register_module("bn" + number, collecting_norm(shape.out, options));
  };
  add("1", conv1_, bn1_, {.in = sizes.in, .out = sizes.width, .size = 1});
  add("2", conv2_, bn2_,
      {.in = sizes.width,
       .out = sizes.width,
       .stride = sizes.stride,
       .padding = 1,
       .groups = sizes.groups});
  add("3", conv3_, bn3_, {.in = sizes.width, .out = sizes.out, .size = 1});
  if (sizes.squeezed > 0) {
    const SqueezeExcitationStyle style{.squeeze = "fc1", .excite = "fc2"};
    se_ = register_module(
        "se", std::make_shared<SqueezeExcitation>(SqueezeExcitationSizes{sizes.out, sizes.squeezed},
                                                  style, options));
  }
  drop_path_ = register_drop_path(*this, sizes.drop_path);
  if (sizes.in == sizes.out && sizes.stride == 1) return;
  const auto list = register_module("downsample", std::make_shared<torch::nn::ModuleListImpl>());
  shortcut_ = std::make_shared<Convolution>(
      ConvolutionSizes{.in = sizes.in, .out = sizes.out, .size = 1, .stride = sizes.stride},
      options);
  shortcut_norm_ = collecting_norm(sizes.out, options);
  list->push_back(shortcut_);
  list->push_back(shortcut_norm_);
}

at::Tensor Bottleneck::compute(const at::Tensor& input) const {
  const OwnPrecision own(*this);
  const at::Tensor x = own(input);
  at::Tensor y = bn1_->forward_relu(conv1_->forward(x));
  y = bn2_->forward_relu(conv2_->forward(y));
  y = bn3_->forward(conv3_->forward(y));
  const at::Tensor added = shortcut_ ? shortcut_norm_->forward(shortcut_->forward(x)) : x;
  if (se_) {
    // Setting the gate to zero skips the block, and costs less than changing the map.
    const at::Tensor gate = se_->forward(y);
    return gated_residual(y, drop_path_ ? drop_path_->forward(gate) : gate, added);
  }
  if (drop_path_) y = drop_path_->forward(y);
  return (y.scalar_type() == added.scalar_type() ? y.add_(added) : y + added).relu_();
}

BottleneckNetwork::BottleneckNetwork(const BottleneckOptions& network,
                                     const at::TensorOptions& options)
    : channels_(kExpansion * (network.planes << (network.layers.size() - 1))) {
  conv1_ = register_module(
      "conv1",
      std::make_shared<Convolution>(
          ConvolutionSizes{.in = 3, .out = network.planes, .size = 7, .stride = 2, .padding = 3},
          options));
  bn1_ = register_module("bn1", collecting_norm(network.planes, options));
  const std::int64_t last = std::reduce(network.layers.begin(), network.layers.end()) - 1;
  std::int64_t in = network.planes;
  for (std::size_t stage = 0; stage < network.layers.size(); ++stage) {
    BottleneckSizes sizes = sizes_of_stage(network, stage);
    const auto list = register_module("layer" + std::to_string(stage + 1),
                                      std::make_shared<torch::nn::ModuleListImpl>());
    for (std::int64_t block = 0; block < network.layers[stage]; ++block) {
      sizes.in = in;
      sizes.stride = stage > 0 && block == 0 ? 2 : 1;
      sizes.drop_path =
          network.drop_path * static_cast<double>(blocks_.size()) / static_cast<double>(last);
      blocks_.push_back(make_block<Bottleneck>(sizes, options));
      list->push_back(blocks_.back());
      in = sizes.out;
    }
  }
}

at::Tensor BottleneckNetwork::forward(const at::Tensor& images) const {
  const OwnPrecision own(*this);
  at::Tensor x = bn1_->forward_relu(conv1_->forward(own(images)));
  x = torch::max_pool2d(x, /*kernel_size=*/3, /*stride=*/2, /*padding=*/1);
  for (const auto& block : blocks_) x = block->forward(x);
  return x;
}

std::optional<MapShape> BottleneckNetwork::shape(std::int64_t height, std::int64_t width) const {
  const auto pixels = [](std::int64_t size) {
    return (size + kPixelsOfLastMap - 1) / kPixelsOfLastMap;
  };
  return MapShape{channels_, pixels(height), pixels(width)};
}

namespace {

using torch::autograd::AutogradContext, torch::autograd::variable_list;

constexpr at::MemoryFormat kByPixel = at::MemoryFormat::ChannelsLast;
/// A gate's gradient is summed over parts of this many pixels, and the sums for an image's parts
/// are then added up. The result is therefore independent of the number of threads, and small terms
/// are not lost in a large sum.
constexpr std::int64_t kPixelsOfPart = 32;

/// Divides channels_last maps (images, channels, h, w) into parts: ranges of pixels of one image.
class Parts {
 public:
  struct Part {
    std::int64_t image = 0, number = 0;  ///< the index of the image, and of the part among all
                                         ///< parts
    std::int64_t first_pixel = 0, end_pixel = 0;  ///< positions among the pixels of all images
  };

  explicit Parts(const at::Tensor& maps)
      : images_(maps.size(0)), pixels_(maps.size(2) * maps.size(3)) {}

  std::int64_t of_image() const { return (pixels_ + kPixelsOfPart - 1) / kPixelsOfPart; }

  template <typename Work>
  void each(const Work& work) const {
    parallel_for(images_ * of_image(), /*grain=*/1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t part = begin; part < end; ++part) {
        const std::int64_t image = part / of_image(), first = part % of_image() * kPixelsOfPart;
        const std::int64_t until = std::min(first + kPixelsOfPart, pixels_);
        work(Part{image, part, image * pixels_ + first, image * pixels_ + until});
      }
    });
  }

 private:
  const std::int64_t images_, pixels_;
};

/// Computes y = relu(x · open + added) for one pixel. The arrays do not overlap, so the compiler
/// can vectorize the loop over channels.
void add_gated(const float* __restrict x, const float* __restrict open,
               const float* __restrict added, float* __restrict y, std::int64_t channels) {
  for (std::int64_t c = 0; c < channels; ++c) {
    const float product = x[c] * open[c], sum = product + added[c];
    y[c] = sum < 0 ? 0 : sum;  // NaN is kept
  }
}

/// Computes the gradients of `x` and `added` for one pixel, and adds the pixel's share of the
/// gate's gradient to `d_open`.
void add_gated_backward(const float* __restrict dy, const float* __restrict y,
                        const float* __restrict x, const float* __restrict open,
                        float* __restrict dx, float* __restrict d_added, float* __restrict d_open,
                        std::int64_t channels) {
  for (std::int64_t c = 0; c < channels; ++c) {
    const float slope = dy[c], d = y[c] <= 0 ? 0 : slope;  // always reads dy, to avoid a branch
    d_added[c] = d;
    dx[c] = d * open[c];
    d_open[c] += d * x[c];
  }
}

class GatedResidual : public torch::autograd::Function<GatedResidual> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& maps,
                            const at::Tensor& gate, const at::Tensor& added) {
    const at::Tensor y = at::empty_like(maps);
    context->save_for_backward({maps, gate, y});
    if (y.is_meta()) return y;
    const std::int64_t channels = maps.size(1);
    const auto *const x = maps.const_data_ptr<float>(), *const other =
                                                            added.const_data_ptr<float>();
    const auto* const open = gate.const_data_ptr<float>();
    auto* const to = y.mutable_data_ptr<float>();
    Parts(maps).each([=](const Parts::Part& part) {
      for (std::int64_t pixel = part.first_pixel; pixel < part.end_pixel; ++pixel) {
        const std::int64_t at = pixel * channels;
        add_gated(x + at, open + part.image * channels, other + at, to + at, channels);
      }
    });
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    if (torch::GradMode::is_enabled())
      throw std::logic_error("a gated residual does not support double backward");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &maps = saved[0], &gate = saved[1], &y = saved[2];
    const at::Tensor dy = gradients[0].contiguous(kByPixel);
    const at::Tensor d_maps = at::empty_like(maps), d_added = at::empty_like(maps);
    const Parts parts(maps);
    const std::int64_t channels = maps.size(1);
    const at::Tensor d_gates =
        at::zeros({maps.size(0), parts.of_image(), channels}, gate.options());
    if (!maps.is_meta()) {
      const auto *const x = maps.const_data_ptr<float>(), *const result = y.const_data_ptr<float>();
      const auto *const slope = dy.const_data_ptr<float>(), *const open =
                                                                gate.const_data_ptr<float>();
      auto *const dx = d_maps.mutable_data_ptr<float>(), *const d_other =
                                                             d_added.mutable_data_ptr<float>();
      auto* const d_open = d_gates.mutable_data_ptr<float>();
      parts.each([=](const Parts::Part& part) {
        for (std::int64_t pixel = part.first_pixel; pixel < part.end_pixel; ++pixel) {
          const std::int64_t at = pixel * channels;
          add_gated_backward(slope + at, result + at, x + at, open + part.image * channels, dx + at,
                             d_other + at, d_open + part.number * channels, channels);
        }
      });
    }
    return {d_maps, d_gates.sum(1).view(gate.sizes()), d_added};
  }
};

bool is_ours(const at::Tensor& maps, const at::Tensor& gate, const at::Tensor& added) {
  const auto is_plain = [](const at::Tensor& x) {
    return x.scalar_type() == at::kFloat && x.is_contiguous(kByPixel);
  };
  return is_on_cpu(maps) && is_plain(maps) && is_plain(gate) && is_plain(added) &&
         added.sizes() == maps.sizes();
}

}  // namespace

at::Tensor gated_residual(const at::Tensor& maps, const at::Tensor& gate, const at::Tensor& added) {
  if (is_ours(maps, gate, added)) return GatedResidual::apply(maps, gate, added);
  const at::Tensor y = maps * gate;
  return (y.scalar_type() == added.scalar_type() ? y.add_(added) : y + added).relu_();
}

namespace {

constexpr std::int64_t kSqueezeRatio = 4, kPixelsOfLastMapped = 32;

std::shared_ptr<Convolution> convolution_of(const ConvolutionSizes& sizes,
                                            const at::TensorOptions& options) {
  return std::make_shared<Convolution>(sizes, options);
}

std::shared_ptr<BatchNorm> inverted_norm(std::int64_t channels, const at::TensorOptions& options) {
  return std::make_shared<BatchNorm>(channels, BatchNormStatistics::kCollected, options);
}

/// Applies SiLU, or ReLU6 in place; the gradient of SiLU needs its input.
at::Tensor activated(at::Tensor x, bool is_silu) {
  return is_silu ? torch::silu(x) : torch::hardtanh_(x, 0, 6);
}

}  // namespace

InvertedResidualOptions InvertedResidualOptions::mobile_net_v2() {
  return {.stages = {{1, 3, 1, 16},
                     {2, 3, 2, 24},
                     {3, 3, 2, 32},
                     {4, 3, 2, 64},
                     {3, 3, 1, 96},
                     {3, 3, 2, 160},
                     {1, 3, 1, 320}},
          .head = 1280};
}

InvertedResidualOptions InvertedResidualOptions::efficient_net_b2() {
  return {.stages = {{2, 3, 1, 16},
                     {3, 3, 2, 24},
                     {3, 5, 2, 48},
                     {4, 3, 2, 88},
                     {4, 5, 1, 120},
                     {5, 5, 2, 208},
                     {2, 3, 1, 352}},
          .head = 1408,
          .is_efficient_net = true};
}

InvertedResidual::InvertedResidual(const InvertedResidualSizes& sizes,
                                   const at::TensorOptions& options)
    : is_silu_(sizes.is_efficient_net), adds_input_(sizes.stride == 1 && sizes.in == sizes.out) {
  const bool widens = sizes.expansion > 1;
  const std::int64_t inside = sizes.in * sizes.expansion;
  int norms = 0;
  const auto add_norm = [&](std::int64_t channels) {
    return register_module("bn" + std::to_string(++norms), inverted_norm(channels, options));
  };
  if (widens) {
    widen_ = register_module("conv_pw",
                             convolution_of({.in = sizes.in, .out = inside, .size = 1}, options));
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
    const SqueezeExcitationStyle style{
        .squeeze = "conv_reduce", .excite = "conv_expand", .is_silu = true};
    se_ = register_module(
        "se", std::make_shared<SqueezeExcitation>(
                  SqueezeExcitationSizes{inside, sizes.in / kSqueezeRatio}, style, options));
  }
  narrow_ = register_module(widens ? "conv_pwl" : "conv_pw",
                            convolution_of({.in = inside, .out = sizes.out, .size = 1}, options));
  narrow_norm_ = add_norm(sizes.out);
  if (adds_input_) drop_path_ = register_drop_path(*this, sizes.drop_path);
}

at::Tensor InvertedResidual::compute(const at::Tensor& input) const {
  const OwnPrecision own(*this);
  const at::Tensor x = own(input);
  at::Tensor y = widen_ ? activated(widen_norm_->forward(widen_->forward(x)), is_silu_) : x;
  y = activated(depthwise_norm_->forward(depthwise_->forward(y)), is_silu_);
  if (se_) y = y * se_->forward(y);
  y = narrow_norm_->forward(narrow_->forward(y));
  if (!adds_input_) return y;
  if (drop_path_) y = drop_path_->forward(y);
  return y.scalar_type() == x.scalar_type() ? y.add_(x) : y + x;
}

InvertedResidualNetwork::InvertedResidualNetwork(const InvertedResidualOptions& network,
                                                 const at::TensorOptions& options)
    : options_(network),
      conv_stem_(register_module(
          "conv_stem",
          convolution_of({.in = 3, .out = network.stem, .size = 3, .stride = 2, .padding = 1},
                         options))),
      bn1_(register_module("bn1", inverted_norm(network.stem, options))) {
  const auto stages = register_module("blocks", std::make_shared<torch::nn::ModuleListImpl>());
  std::int64_t count = 0;
  for (const InvertedResidualStage& stage : network.stages) count += stage.blocks;
  std::int64_t in = network.stem;
  for (std::size_t number = 0; number < network.stages.size(); ++number) {
    const InvertedResidualStage& stage = network.stages[number];
    const auto list = std::make_shared<torch::nn::ModuleListImpl>();
    for (std::int64_t block = 0; block < stage.blocks; ++block) {
      blocks_.push_back(make_block<InvertedResidual>(
          InvertedResidualSizes{.in = in,
                                .expansion = number == 0 ? 1 : network.expansion,
                                .out = stage.out,
                                .size = stage.size,
                                .stride = block == 0 ? stage.stride : 1,
                                .is_efficient_net = network.is_efficient_net,
                                .drop_path = network.drop_path *
                                             static_cast<double>(blocks_.size()) /
                                             static_cast<double>(count)},
          options));
      list->push_back(blocks_.back());
      in = stage.out;
    }
    stages->push_back(list);
  }
  conv_head_ = register_module("conv_head",
                               convolution_of({.in = in, .out = network.head, .size = 1}, options));
  bn2_ = register_module("bn2", inverted_norm(network.head, options));
}

at::Tensor InvertedResidualNetwork::forward(const at::Tensor& images) const {
  const OwnPrecision own(*this);
  const bool is_silu = options_.is_efficient_net;
  at::Tensor x = activated(bn1_->forward(conv_stem_->forward(own(images))), is_silu);
  for (const auto& block : blocks_) x = block->forward(x);
  return activated(bn2_->forward(conv_head_->forward(x)), is_silu);
}

std::optional<MapShape> InvertedResidualNetwork::shape(std::int64_t height,
                                                       std::int64_t width) const {
  const auto pixels = [](std::int64_t size) {
    return (size + kPixelsOfLastMapped - 1) / kPixelsOfLastMapped;
  };
  return MapShape{options_.head, pixels(height), pixels(width)};
}

}  // namespace stages
