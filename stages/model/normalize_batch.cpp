#include "stages/model/normalize_batch.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

#include <torch/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "stages/model/linear_layer.h"
#include "stages/tensor/parallel.h"

namespace stages {
namespace {

using torch::autograd::AutogradContext, torch::autograd::variable_list;

/// Number of elements per part. A part stays in a core's cache while it is read twice, and can be
/// summed accurately in float32.
constexpr std::int64_t kElementsOfPart = 1 << 15;
/// Minimum number of channels per thread; fewer do not justify another thread.
constexpr std::int64_t kChannelsOfThread = 64;

/// Divides the pixels of all maps into parts; each pixel is a row of channels.
class Pixels {
 public:
  struct Part {
    std::int64_t number = 0, first = 0, end = 0;  ///< pixels `first` to `end`

    std::int64_t size() const { return end - first; }
  };

  explicit Pixels(const at::Tensor& maps)
      : channels_(maps.size(1)),
        count_(maps.numel() / channels_),
        of_part_(std::max<std::int64_t>(1, kElementsOfPart / channels_)) {}

  std::int64_t channels() const { return channels_; }
  std::int64_t count() const { return count_; }
  std::int64_t parts() const { return (count_ + of_part_ - 1) / of_part_; }
  Part part(std::int64_t number) const {
    return {number, number * of_part_, std::min(count_, (number + 1) * of_part_)};
  }

  template <typename Work>
  void each_part(const Work& work) const {
    parallel_for(parts(), /*grain=*/1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t number = begin; number < end; ++number) work(part(number));
    });
  }
  template <typename Work>
  void each_channel(const Work& work) const {
    parallel_for(channels_, kChannelsOfThread, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t channel = begin; channel < end; ++channel) work(channel);
    });
  }

 private:
  const std::int64_t channels_, count_, of_part_;
};

// These functions process one pixel, channel by channel. Their arrays do not overlap, so the
// compiler can vectorize the loops over channels.

void add(const float* __restrict x, float* __restrict sum, std::int64_t channels) {
  for (std::int64_t c = 0; c < channels; ++c) sum[c] += x[c];
}

void add_square(const float* __restrict x, const float* __restrict mean, float* __restrict sum,
                std::int64_t channels) {
  for (std::int64_t c = 0; c < channels; ++c) {
    const float distance = x[c] - mean[c];
    sum[c] += distance * distance;
  }
}

/// y = scale · x + offset, with negative results set to zero if kHasRelu; NaN is kept.
template <bool kHasRelu>
void apply(const float* __restrict x, const float* __restrict scale, const float* __restrict offset,
           float* __restrict y, std::int64_t channels) {
  for (std::int64_t c = 0; c < channels; ++c) {
    const float product = x[c] * scale[c], normal = product + offset[c];
    y[c] = kHasRelu && normal < 0 ? 0 : normal;
  }
}

/// The per-channel values of the gradient's formula.
struct Slopes {
  const float *mean, *scale, *offset;  ///< as in apply()
  const float *of_mean,
      *of_square;  ///< for the share of the gradient that flows through the mean and the variance
};

/// Returns the gradient of apply()'s result before ReLU.
template <bool kHasRelu>
float slope_of(float dy, float x, float scale, float offset) {
  const float product = x * scale, normal = product + offset;
  return kHasRelu && normal <= 0 ? 0 : dy;
}

template <bool kHasRelu>
void add_slopes(const float* __restrict dy, const float* __restrict x, const Slopes& of,
                float* __restrict sum, float* __restrict product_sum, std::int64_t channels) {
  const float* const __restrict mean = of.mean, * const __restrict scale = of.scale, * const __restrict offset = of.offset;
  for (std::int64_t c = 0; c < channels; ++c) {
    const float slope = slope_of<kHasRelu>(dy[c], x[c], scale[c], offset[c]);
    sum[c] += slope;
    product_sum[c] += slope * (x[c] - mean[c]);
  }
}

template <bool kHasRelu>
void apply_slopes(const float* __restrict dy, const float* __restrict x, const Slopes& of,
                  float* __restrict dx, std::int64_t channels) {
  const float* const __restrict mean = of.mean, * const __restrict scale = of.scale, * const __restrict offset = of.offset, * const __restrict of_mean = of.of_mean, * const __restrict of_square = of.of_square;
  for (std::int64_t c = 0; c < channels; ++c) {
    const float slope = slope_of<kHasRelu>(dy[c], x[c], scale[c], offset[c]);
    dx[c] = (slope - of_mean[c] - (x[c] - mean[c]) * of_square[c]) * scale[c];
  }
}

/// Two rows of channels for one part: the means and the sums of squared distances from them, or two
/// other sums.
struct OfPart {
  float *first, *second;
};
OfPart of_part(const Pixels& pixels, float* of_parts, std::int64_t number) {
  float* const first = of_parts + 2 * number * pixels.channels();
  return {first, first + pixels.channels()};
}

at::Tensor memory_of_parts(const Pixels& pixels, const at::TensorOptions& options) {
  return at::empty({pixels.parts(), 2, pixels.channels()}, options);
}

/// Computes the mean of each channel and the sum of the squared distances from it, reading the maps
/// once.
void compute_moments(const Pixels& pixels, const float* x, float* of_parts, double* means,
                     double* squares_of) {
  const std::int64_t channels = pixels.channels();
  pixels.each_part([=](const Pixels::Part& part) {
    const auto [mean, squares] = of_part(pixels, of_parts, part.number);
    std::fill_n(mean, 2 * channels, 0.0F);
    for (std::int64_t at = part.first; at < part.end; ++at) add(x + at * channels, mean, channels);
    for (std::int64_t c = 0; c < channels; ++c) mean[c] /= static_cast<float>(part.size());
    for (std::int64_t at = part.first; at < part.end; ++at)
      add_square(x + at * channels, mean, squares, channels);
  });
  const auto count = static_cast<double>(pixels.count());
  pixels.each_channel([=](std::int64_t c) {
    double sum = 0, squares = 0;
    for (std::int64_t number = 0; number < pixels.parts(); ++number) {
      sum += static_cast<double>(pixels.part(number).size()) *
             of_part(pixels, of_parts, number).first[c];
    }
    means[c] = sum / count;
    for (std::int64_t number = 0; number < pixels.parts(); ++number) {
      const auto [mean, of_mean] = of_part(pixels, of_parts, number);
      const double gap = mean[c] - means[c];
      squares += of_mean[c] + static_cast<double>(pixels.part(number).size()) * gap * gap;
    }
    squares_of[c] = squares;
  });
}

/// Updates a channel's running statistic, in float32, with the batch's value.
void collect(const at::Tensor& collected, std::int64_t channel, double of_batch, double momentum) {
  float& value = collected.mutable_data_ptr<float>()[channel];
  value = static_cast<float>(momentum * of_batch + (1 - momentum) * value);
}

template <bool kHasRelu>
class NormalizedBatch : public torch::autograd::Function<NormalizedBatch<kHasRelu>> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& maps,
                            const at::Tensor& weight, const at::Tensor& bias,
                            const std::optional<at::Tensor>& running_mean,
                            const std::optional<at::Tensor>& running_var, double momentum,
                            const RankStatisticsPtr& ranks) {
    const Pixels pixels(maps);
    const std::int64_t channels = pixels.channels();
    const at::Tensor y = at::empty_like(maps),
                     statistics = at::empty({4, channels}, weight.options());
    const at::Tensor of_parts = memory_of_parts(pixels, weight.options()),
                     moments = at::empty({2, channels}, weight.options().dtype(at::kDouble));
    context->save_for_backward({maps, statistics});
    auto count = static_cast<double>(pixels.count());
    if (y.is_meta()) {
      if (ranks) keep_ranks(*context, ranks, ranks->join_moments(moments, count));
      return y;
    }

    const auto* const x = maps.const_data_ptr<float>();
    auto *const means = moments.mutable_data_ptr<double>(), *const squares = means + channels;
    compute_moments(pixels, x, of_parts.mutable_data_ptr<float>(), means, squares);
    if (ranks) keep_ranks(*context, ranks, count = ranks->join_moments(moments, count));
    const auto *const weights = weight.const_data_ptr<float>(), *const biases =
                                                                    bias.const_data_ptr<float>();
    auto *const mean = statistics.mutable_data_ptr<float>(), *const inverse = mean + channels,
                *const scale = inverse + channels, *const offset = scale + channels;
    for (std::int64_t c = 0; c < channels; ++c) {
      const double variance = squares[c] / count;
      const double deviation = std::sqrt(variance + kBatchNormEpsilon);
      mean[c] = static_cast<float>(means[c]);
      inverse[c] = static_cast<float>(1 / deviation);
      scale[c] = static_cast<float>(weights[c] / deviation);
      offset[c] = static_cast<float>(biases[c] - means[c] * weights[c] / deviation);
      if (running_mean) collect(*running_mean, c, means[c], momentum);
      if (running_var) collect(*running_var, c, variance * count / (count - 1), momentum);
    }
    auto* const to = y.mutable_data_ptr<float>();
    pixels.each_part([=](const Pixels::Part& part) {
      for (std::int64_t at = part.first * channels; at < part.end * channels; at += channels) {
        apply<kHasRelu>(x + at, scale, offset, to + at, channels);
      }
    });
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    if (torch::GradMode::is_enabled())
      throw std::logic_error("a normalized batch does not support double backward");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &maps = saved[0], &statistics = saved[1];
    const Pixels pixels(maps);
    const std::int64_t channels = pixels.channels();
    const at::Tensor slopes = gradients[0].contiguous(at::MemoryFormat::ChannelsLast);
    const at::Tensor dx = context->needs_input_grad(0) ? at::empty_like(maps) : at::Tensor();
    const at::Tensor of_parts = memory_of_parts(pixels, statistics.options());
    const at::Tensor shares = at::empty({2, channels}, statistics.options());
    const at::Tensor d_weight = at::empty({channels}, statistics.options()),
                     d_bias = at::empty_like(d_weight);
    const auto [ranks, count_of_all] = kept_ranks(*context);
    const at::Tensor totals =
        ranks ? at::empty({2, channels}, statistics.options().dtype(at::kDouble)) : at::Tensor();
    if (maps.is_meta()) return {dx, d_weight, d_bias, {}, {}, {}, {}};

    const auto *const x = maps.const_data_ptr<float>(), *const dy = slopes.const_data_ptr<float>();
    const auto *const mean = statistics.const_data_ptr<float>(), *const inverse = mean + channels;
    auto *const of_mean = shares.mutable_data_ptr<float>(), *const of_square = of_mean + channels;
    const Slopes of{mean, inverse + channels, inverse + 2 * channels, of_mean, of_square};
    auto* const sums = of_parts.mutable_data_ptr<float>();
    pixels.each_part([=](const Pixels::Part& part) {
      const auto [sum, product_sum] = of_part(pixels, sums, part.number);
      std::fill_n(sum, 2 * channels, 0.0F);
      for (std::int64_t at = part.first * channels; at < part.end * channels; at += channels) {
        add_slopes<kHasRelu>(dy + at, x + at, of, sum, product_sum, channels);
      }
    });
    auto *const to_weight = d_weight.mutable_data_ptr<float>(), *const to_bias =
                                                                    d_bias
                                                                        .mutable_data_ptr<float>();
    const double count = ranks ? count_of_all : static_cast<double>(pixels.count());
    const auto set_shares = [=](std::int64_t c, double sum, double product_sum) {
      of_mean[c] = static_cast<float>(sum / count);
      of_square[c] = static_cast<float>(product_sum * inverse[c] * inverse[c] / count);
    };
    auto* const of_all = ranks ? totals.mutable_data_ptr<double>() : nullptr;
    pixels.each_channel([=](std::int64_t c) {
      double sum = 0, product_sum = 0;
      for (std::int64_t number = 0; number < pixels.parts(); ++number) {
        sum += of_part(pixels, sums, number).first[c];
        product_sum += of_part(pixels, sums, number).second[c];
      }
      to_weight[c] = static_cast<float>(product_sum * inverse[c]);
      to_bias[c] = static_cast<float>(sum);
      if (!of_all) return set_shares(c, sum, product_sum);
      of_all[c] = sum;
      of_all[channels + c] = product_sum;
    });
    if (ranks && dx.defined()) {
      ranks->sum_slopes(totals);
      for (std::int64_t c = 0; c < channels; ++c) set_shares(c, of_all[c], of_all[channels + c]);
    }
    if (dx.defined()) {
      auto* const to = dx.mutable_data_ptr<float>();
      pixels.each_part([=](const Pixels::Part& part) {
        for (std::int64_t at = part.first * channels; at < part.end * channels; at += channels) {
          apply_slopes<kHasRelu>(dy + at, x + at, of, to + at, channels);
        }
      });
    }
    return {dx, d_weight, d_bias, {}, {}, {}, {}};
  }
};

std::optional<at::Tensor> if_defined(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}

template <bool kHasRelu>
at::Tensor normalize(const at::Tensor& maps, const BatchNormTensors& of,
                     const RankStatisticsPtr& ranks) {
  return NormalizedBatch<kHasRelu>::apply(maps, of.weight, of.bias, if_defined(of.running_mean),
                                          if_defined(of.running_var), of.momentum, ranks);
}

}  // namespace

bool can_normalize_batch(const at::Tensor& maps, const at::Tensor& weight) {
  return maps.dim() == 4 && maps.scalar_type() == at::kFloat &&
         weight.scalar_type() == at::kFloat && maps.is_contiguous(at::MemoryFormat::ChannelsLast) &&
         maps.numel() > weight.numel() && is_on_cpu(maps);
}

at::Tensor normalize_batch(const at::Tensor& maps, const BatchNormTensors& tensors, bool has_relu,
                           const RankStatisticsPtr& ranks) {
  return has_relu ? normalize<true>(maps, tensors, ranks) : normalize<false>(maps, tensors, ranks);
}

}  // namespace stages
