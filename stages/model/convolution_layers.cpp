#include "stages/model/convolution_layers.h"

#include <algorithm>
#include <stdexcept>
#include <vector>

#include <torch/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "stages/model/linear_layer.h"
#include "stages/model/normalize_batch.h"
#include "stages/numerics/precision_map.h"
#include "stages/plan/memory_trace.h"
#include "stages/ranks/rank_batch_norm.h"
#include "stages/ranks/rank_statistics.h"
#include "stages/tensor/parallel.h"

namespace stages {
namespace {

using torch::autograd::AutogradContext, torch::autograd::variable_list;

constexpr std::int64_t kSide = 3;  // of the kernel, which is padded by one
/// Number of rows of the result that are summed in float32; their sums are added in float64.
constexpr std::int64_t kRowsOfPart = 8;

// The number of channels per pixel that are computed at a time.
constexpr std::int64_t kLanes = 16;
using Lanes = float __attribute__((vector_size(kLanes * sizeof(float))));
using LanesInMemory =
    float __attribute__((vector_size(kLanes * sizeof(float)), aligned(sizeof(float)), may_alias));

#define RETORT_INLINE __attribute__((always_inline)) inline
// Compiles a function for several processors; the loader picks the best version. Versions with
// fused multiply-add round differently.
#define RETORT_FOR_EACH_PROCESSOR __attribute__((target_clones("avx512f", "avx2", "default")))

RETORT_INLINE const LanesInMemory& lanes_at(const float* numbers) {
  return *reinterpret_cast<const LanesInMemory*>(numbers);
}

/// A row of the result's gradient, and a row of the input maps that contributed to that row of the
/// result. Both are channels_last.
struct RowPair {
  const float *slopes, *maps;
  std::int64_t result_width, width, stride, channels;
};

/// Adds the weight's gradient at one position of the kernel to `sums`: each input channel of a
/// group is broadcast to all lanes of the group and multiplied by `slopes`.
template <int kOfGroup, int kOne = 0>
RETORT_INLINE void add_products(const Lanes& slopes, const Lanes& x, Lanes* sums) {
  constexpr auto of = [](int lane) { return lane / kOfGroup * kOfGroup + kOne; };
  sums[kOne] += slopes * __builtin_shufflevector(x, x, of(0), of(1), of(2), of(3), of(4), of(5),
                                                 of(6), of(7), of(8), of(9), of(10), of(11), of(12),
                                                 of(13), of(14), of(15));
  if constexpr (kOne + 1 < kOfGroup) add_products<kOfGroup, kOne + 1>(slopes, x, sums);
}

/// Adds the weight's gradient for one row of the kernel to `sums`, (kSide, kOfGroup, channels).
template <int kOfGroup>
RETORT_INLINE void add_rows(const RowPair& rows, float* sums) {
  for (std::int64_t first = 0; first < rows.channels; first += kLanes) {
    Lanes of_chunk[kSide][kOfGroup] = {};
    const auto add = [&](std::int64_t pixel, std::int64_t column) __attribute__((always_inline)) {
      const std::int64_t seen = pixel * rows.stride + column - 1;
      add_products<kOfGroup>(lanes_at(rows.slopes + pixel * rows.channels + first),
                             lanes_at(rows.maps + seen * rows.channels + first), of_chunk[column]);
    };
    const auto add_at_edge = [&](std::int64_t pixel) {
      for (std::int64_t column = 0; column < kSide; ++column) {
        const std::int64_t seen = pixel * rows.stride + column - 1;
        if (seen >= 0 && seen < rows.width) add(pixel, column);
      }
    };
    add_at_edge(0);
    for (std::int64_t pixel = 1; pixel + 1 < rows.result_width; ++pixel) {
      add(pixel, 0);
      add(pixel, 1);
      add(pixel, 2);
    }
    if (rows.result_width > 1) add_at_edge(rows.result_width - 1);
    for (std::int64_t column = 0; column < kSide; ++column) {
      for (std::int64_t one = 0; one < kOfGroup; ++one) {
        float* const sum = sums + (column * kOfGroup + one) * rows.channels + first;
        *reinterpret_cast<LanesInMemory*>(sum) += of_chunk[column][one];
      }
    }
  }
}

RETORT_FOR_EACH_PROCESSOR void add_rows_of_fours(const RowPair& rows, float* sums) {
  add_rows<4>(rows, sums);
}
RETORT_FOR_EACH_PROCESSOR void add_rows_of_eights(const RowPair& rows, float* sums) {
  add_rows<8>(rows, sums);
}

/// Adds up the parts of `sums`, of shape (parts, kSide, kSide, channels of a group, channels), and
/// writes the total to `gradient`.
void put_together(const at::Tensor& sums, const at::Tensor& gradient) {
  const std::int64_t parts = sums.size(0), of_part = sums[0].numel(), of_group = sums.size(3),
                     channels = sums.size(4);
  const auto* const all_sums = sums.const_data_ptr<float>();
  auto* const to = gradient.mutable_data_ptr<float>();
  const at::IntArrayRef strides = gradient.strides();
  parallel_for(of_part, /*grain=*/1024, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t number = begin; number < end; ++number) {
      double sum = 0;
      for (std::int64_t part = 0; part < parts; ++part) sum += all_sums[part * of_part + number];
      const std::int64_t channel = number % channels, one = number / channels % of_group,
                         place = number / channels / of_group;
      to[channel * strides[0] + one * strides[1] + place / kSide * strides[2] +
         place % kSide * strides[3]] = static_cast<float>(sum);
    }
  });
}

/// Returns the weight's gradient, in the weight's memory layout.
at::Tensor weight_gradient(const at::Tensor& maps, const at::Tensor& weight,
                           const at::Tensor& slopes, std::int64_t stride) {
  const std::int64_t height = maps.size(2), width = maps.size(3), channels = maps.size(1),
                     of_group = weight.size(1);
  const std::int64_t result_height = slopes.size(2), result_width = slopes.size(3);
  const std::int64_t rows = maps.size(0) * result_height,
                     parts = (rows + kRowsOfPart - 1) / kRowsOfPart;
  const at::Tensor sums = at::zeros({parts, kSide, kSide, of_group, channels}, weight.options()),
                   gradient = at::empty_like(weight);
  if (maps.is_meta()) {
    count_flops(2.0 * static_cast<double>(slopes.numel() * weight[0].numel()));
    return gradient;
  }

  const auto *const x = maps.const_data_ptr<float>(), *const dy = slopes.const_data_ptr<float>();
  auto* const all_sums = sums.mutable_data_ptr<float>();
  const auto add_row = [=](std::int64_t row) {
    for (std::int64_t of_kernel = 0; of_kernel < kSide; ++of_kernel) {
      const std::int64_t image = row / result_height,
                         seen = row % result_height * stride + of_kernel - 1;
      if (seen < 0 || seen >= height) continue;
      const RowPair pair{.slopes = dy + row * result_width * channels,
                         .maps = x + (image * height + seen) * width * channels,
                         .result_width = result_width,
                         .width = width,
                         .stride = stride,
                         .channels = channels};
      float* const to =
          all_sums + (row / kRowsOfPart * kSide + of_kernel) * kSide * of_group * channels;
      of_group == 4 ? add_rows_of_fours(pair, to) : add_rows_of_eights(pair, to);
    }
  };
  parallel_for(parts, /*grain=*/1, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin * kRowsOfPart; row < std::min(rows, end * kRowsOfPart); ++row)
      add_row(row);
  });
  put_together(sums, gradient);
  return gradient;
}

class GroupedConvolution : public torch::autograd::Function<GroupedConvolution> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& maps,
                            const at::Tensor& weight, std::int64_t stride) {
    context->save_for_backward({maps, weight});
    context->saved_data["stride"] = stride;
    return at::conv2d(maps, weight, {}, stride, /*padding=*/1, /*dilation=*/1,
                      maps.size(1) / weight.size(1));
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    if (torch::GradMode::is_enabled())
      throw std::logic_error("a grouped convolution does not support double backward");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &maps = saved[0], &weight = saved[1];
    const std::int64_t stride = context->saved_data.at("stride").toInt();
    const at::Tensor slopes = gradients[0].contiguous(at::MemoryFormat::ChannelsLast);
    variable_list result(3);
    if (context->needs_input_grad(0)) {
      result[0] = std::get<0>(at::convolution_backward(
          slopes, maps, weight, {}, {stride, stride}, {1, 1}, {1, 1},
          /*transposed=*/false, {0, 0}, maps.size(1) / weight.size(1), {true, false, false}));
    }
    if (context->needs_input_grad(1)) result[1] = weight_gradient(maps, weight, slopes, stride);
    return result;
  }
};

}  // namespace

bool can_convolve_groups(const at::Tensor& maps, const at::Tensor& weight, std::int64_t stride) {
  const auto is_plain = [](const at::Tensor& x) {
    return x.dim() == 4 && x.scalar_type() == at::kFloat;
  };
  if (!is_plain(maps) || !is_plain(weight) || !is_on_cpu(maps)) return false;
  const std::int64_t of_group = weight.size(1);
  return (of_group == 4 || (of_group == 8 && stride == 2)) && weight.size(2) == kSide &&
         weight.size(3) == kSide && weight.size(0) == maps.size(1) && maps.size(1) % kLanes == 0 &&
         maps.numel() > 0 && maps.is_contiguous(at::MemoryFormat::ChannelsLast) &&
         current_precision(maps.device()) == Precision::kFp32;
}

at::Tensor grouped_convolution(const at::Tensor& maps, const at::Tensor& weight,
                               std::int64_t stride) {
  return GroupedConvolution::apply(maps, weight, stride);
}

namespace {

/// Returns a view (n, h, w, channels) of `x`, with a row of channels for each pixel.
at::Tensor pixels_of(const at::Tensor& x) { return x.permute({0, 2, 3, 1}); }

/// True if the convolution is 1 x 1 with a stride of one and can be computed as a matrix product.
/// A product needs no blocked copies, unlike oneDNN's convolutions.
bool is_product(const at::Tensor& x, const at::Tensor& weight, const ConvolutionSizes& shape) {
  return shape.size == 1 && shape.stride == 1 && shape.padding == 0 && shape.groups == 1 &&
         x.is_contiguous(at::MemoryFormat::ChannelsLast) &&
         has_torch_product(pixels_of(x), weight.flatten(1));
}

}  // namespace

Convolution::Convolution(const ConvolutionSizes& shape, const at::TensorOptions& options)
    : weight(register_parameter(
          "weight",
          torch::empty({shape.out, shape.in / shape.groups, shape.size, shape.size}, options))),
      shape_(shape) {
  if (shape.has_bias) bias = register_parameter("bias", torch::empty({shape.out}, options));
}

at::Tensor Convolution::forward(const at::Tensor& input) const {
  const OwnPrecision own(*this);
  const at::Tensor x = own(input);
  if (is_product(x, weight, shape_))
    return linear_layer(pixels_of(x), weight.flatten(1), bias).permute({0, 3, 1, 2});
  if (shape_.padding == 1 && !shape_.has_bias && can_convolve_groups(x, weight, shape_.stride)) {
    return grouped_convolution(x, weight, shape_.stride);
  }
  return torch::conv2d(x, weight, bias, shape_.stride, shape_.padding, /*dilation=*/1,
                       shape_.groups);
}

BatchNorm::BatchNorm(std::int64_t channels, BatchNormStatistics statistics,
                     const at::TensorOptions& options)
    : weight(register_parameter("weight", torch::empty({channels}, options))),
      bias(register_parameter("bias", torch::empty({channels}, options))),
      running_mean_(register_buffer("running_mean", torch::zeros({channels}, options))),
      running_var_(register_buffer("running_var", torch::ones({channels}, options))),
      num_batches_tracked_(
          register_buffer("num_batches_tracked", torch::zeros({}, options.dtype(torch::kLong)))),
      statistics_(statistics) {}

at::Tensor BatchNorm::forward(const at::Tensor& x) const { return compute(x, /*has_relu=*/false); }

at::Tensor BatchNorm::forward_relu(const at::Tensor& x) const {
  return compute(x, /*has_relu=*/true);
}

void BatchNorm::start_averaging() {
  const torch::NoGradGuard no_graph;
  running_mean_.zero_();
  running_var_.fill_(1);
  averaged_ = 0;
}

void BatchNorm::stop_averaging() { averaged_.reset(); }

RunningNumbers BatchNorm::running() const {
  return {{running_mean_, running_var_},
          averaged_.value_or(tracked_),
          averaged_ ? std::nullopt : std::optional(kBatchNormMomentum)};
}

void BatchNorm::count_batches(std::int64_t more) {
  if (averaged_) *averaged_ += more;
  else num_batches_tracked_.add_(more);
}

at::Tensor BatchNorm::compute(const at::Tensor& input, bool has_relu) const {
  const OwnPrecision own(*this);
  const at::Tensor x = own(input);
  const RankStatisticsPtr ranks = current_rank_statistics();
  const bool has_spread = input.numel() > weight.numel() || (ranks && ranks->units() > 1);
  const bool collects =
      statistics_ == BatchNormStatistics::kCollected && is_training() && has_spread;
  const bool is_by_batch = collects || statistics_ == BatchNormStatistics::kOfBatch;
  const bool sees_collected = collects || !is_by_batch;
  if (collects && !averaged_) {
    num_batches_tracked_.add_(1);
    ++tracked_;
  }
  BatchNormTensors tensors{weight, bias, sees_collected ? running_mean_ : at::Tensor(),
                           sees_collected ? running_var_ : at::Tensor()};
  if (collects && averaged_) tensors.momentum = 1.0 / static_cast<double>(++*averaged_);
  if (is_by_batch && can_normalize_batch(x, weight))
    return normalize_batch(x, tensors, has_relu, ranks);
  const at::Tensor y =
      is_by_batch && ranks
          ? batch_norm_over_ranks(x, weight, bias, tensors.running_mean, tensors.running_var,
                                  tensors.momentum, kBatchNormEpsilon, ranks)
          : torch::batch_norm(x, weight, bias, tensors.running_mean, tensors.running_var,
                              is_by_batch, tensors.momentum, kBatchNormEpsilon,
                              at::globalContext().userEnabledCuDNN());
  return has_relu ? y.relu_() : y;
}

namespace {

std::shared_ptr<Convolution> pointwise(std::int64_t in, std::int64_t out,
                                       const at::TensorOptions& options) {
  return std::make_shared<Convolution>(
      ConvolutionSizes{.in = in, .out = out, .size = 1, .has_bias = true}, options);
}

/// The mean of each channel, of shape (n, channels, 1, 1). Its gradient is a view of one value per
/// channel; torch's mean copies that value to every pixel.
class ChannelMeans : public torch::autograd::Function<ChannelMeans> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& maps) {
    context->saved_data["shape"] = maps.sizes().vec();
    return maps.mean({2, 3}, /*keepdim=*/true);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const std::vector<std::int64_t> shape = context->saved_data.at("shape").toIntVector();
    return {(gradients[0] / (shape[2] * shape[3])).expand(shape)};
  }
};

}  // namespace

std::shared_ptr<Dropout> register_drop_path(torch::nn::Module& block, double probability) {
  if (probability <= 0) return nullptr;
  return block.register_module("drop_path",
                               std::make_shared<Dropout>(probability, DropoutUnit::kSample));
}

SqueezeExcitation::SqueezeExcitation(const SqueezeExcitationSizes& sizes,
                                     const SqueezeExcitationStyle& style,
                                     const at::TensorOptions& options)
    : is_silu_(style.is_silu),
      squeeze_(register_module(style.squeeze, pointwise(sizes.channels, sizes.squeezed, options))),
      excite_(register_module(style.excite, pointwise(sizes.squeezed, sizes.channels, options))) {}

at::Tensor SqueezeExcitation::forward(const at::Tensor& input) const {
  const OwnPrecision own(*this);
  const at::Tensor squeezed = squeeze_->forward(ChannelMeans::apply(own(input)));
  return excite_->forward(is_silu_ ? torch::silu(squeezed) : squeezed.relu()).sigmoid();
}

}  // namespace stages
