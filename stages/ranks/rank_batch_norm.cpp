#include "stages/ranks/rank_batch_norm.h"

#include <optional>
#include <stdexcept>
#include <vector>

#include <ATen/OpMathType.h>
#include <ATen/ops/batch_norm_native.h>
#include <ATen/ops/instance_norm_native.h>
#include <torch/autograd.h>
#include <torch/library.h>
#include <torch/types.h>
#include <torch/utils.h>

namespace stages {
namespace {

namespace autograd = torch::autograd;

using OptionalTensor = std::optional<at::Tensor>;

/// Returns all dimensions except the channels.
std::vector<std::int64_t> summed_dimensions(const at::Tensor& maps) {
  std::vector<std::int64_t> dimensions = {0};
  for (std::int64_t one = 2; one < maps.dim(); ++one) dimensions.push_back(one);
  return dimensions;
}

at::Tensor sum_by_channel(const at::Tensor& maps) { return maps.sum(summed_dimensions(maps)); }

/// Converts one value per channel to a shape and type that can be combined with maps in the type
/// used for their sums.
at::Tensor for_maps(const at::Tensor& numbers, const at::Tensor& maps) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(maps.dim()), 1);
  shape[1] = maps.size(1);
  return numbers.to(at::toOpMathType(maps.scalar_type())).view(shape);
}

/// Returns a copy in the type used for sums.
at::Tensor copied_for_sums(const at::Tensor& maps) {
  return maps.to(at::toOpMathType(maps.scalar_type()), /*non_blocking=*/false, /*copy=*/true);
}

/// Allocates two values per channel, (2, channels) float64.
at::Tensor pairs_by_channel(const at::Tensor& maps) {
  return at::empty({2, maps.size(1)}, maps.options().dtype(at::kDouble).memory_format({}));
}

/// Returns the mean of each channel and the sum of squared distances from the mean, (2, channels).
at::Tensor moments_of(const at::Tensor& maps) {
  const at::Tensor moments = pairs_by_channel(maps);
  at::Tensor distances = copied_for_sums(maps);
  const at::Tensor means = distances.mean(summed_dimensions(maps));
  distances.sub_(for_maps(means, maps)).square_();
  moments[0].copy_(means);
  moments[1].copy_(sum_by_channel(distances));
  return moments;
}

void move_toward(const at::Tensor& collected, const at::Tensor& of_batch, double momentum) {
  collected.copy_(collected * (1 - momentum) + of_batch * momentum);
}

bool has(const std::optional<at::Tensor>& tensor) { return tensor && tensor->defined(); }

class BatchNormOverRanks : public autograd::Function<BatchNormOverRanks> {
 public:
  static at::Tensor forward(autograd::AutogradContext* context, const at::Tensor& maps,
                            const OptionalTensor& weight, const OptionalTensor& bias,
                            const OptionalTensor& running_mean, const OptionalTensor& running_var,
                            double momentum, double epsilon, const RankStatisticsPtr& ranks) {
    const at::Tensor moments = moments_of(maps);
    const auto own = static_cast<double>(maps.numel() / maps.size(1));
    const double count = ranks->join_moments(moments, own);
    const at::Tensor mean = moments[0], squares = moments[1];
    const at::Tensor inverse = (squares / count).add_(epsilon).rsqrt_();
    if (has(running_mean)) move_toward(*running_mean, mean, momentum);
    if (has(running_var)) move_toward(*running_var, squares / (count - 1), momentum);
    keep_ranks(*context, ranks, count);
    context->saved_data["has bias"] = has(bias);
    context->save_for_backward({maps, mean, inverse, weight.value_or(at::Tensor())});
    const at::Tensor scale = has(weight) ? *weight * inverse : inverse;
    at::Tensor y = copied_for_sums(maps).sub_(for_maps(mean, maps)).mul_(for_maps(scale, maps));
    if (has(bias)) y.add_(for_maps(*bias, maps));
    return y.to(maps.scalar_type());
  }

  static autograd::variable_list backward(autograd::AutogradContext* context,
                                          const autograd::variable_list& gradients) {
    if (torch::GradMode::is_enabled())
      throw std::logic_error("batch normalization over ranks does not support double backward");
    const autograd::variable_list saved = context->get_saved_variables();
    const at::Tensor &maps = saved[0], &mean = saved[1], &inverse = saved[2], &weight = saved[3];
    const auto [ranks, count] = kept_ranks(*context);
    const at::Tensor slopes = gradients[0].to(at::toOpMathType(maps.scalar_type()));
    const auto distances = [&] { return copied_for_sums(maps).sub_(for_maps(mean, maps)); };

    autograd::variable_list result(8);
    const at::Tensor sums = pairs_by_channel(maps);
    sums[0].copy_(sum_by_channel(slopes));
    sums[1].copy_(sum_by_channel(distances().mul_(slopes)));
    if (weight.defined()) result[1] = (sums[1] * inverse).to(weight.scalar_type());
    // Copies the sums, because sum_slopes() replaces them with the sums over all ranks.
    if (context->saved_data.at("has bias").toBool())
      result[2] = sums[0].to(slopes.scalar_type(), /*non_blocking=*/false, /*copy=*/true);
    if (!context->needs_input_grad(0)) return result;
    ranks->sum_slopes(sums);
    const at::Tensor of_square = sums[1] * inverse * inverse / -count;
    at::Tensor dx = distances().mul_(for_maps(of_square, maps)).add_(slopes);
    dx.sub_(for_maps(sums[0] / count, maps));
    dx.mul_(for_maps(weight.defined() ? weight * inverse : inverse, maps));
    result[0] = dx.to(maps.scalar_type());
    return result;
  }
};

}  // namespace

at::Tensor batch_norm_over_ranks(const at::Tensor& maps, const std::optional<at::Tensor>& weight,
                                 const std::optional<at::Tensor>& bias,
                                 const std::optional<at::Tensor>& running_mean,
                                 const std::optional<at::Tensor>& running_var, double momentum,
                                 double epsilon, const RankStatisticsPtr& ranks) {
  return BatchNormOverRanks::apply(maps, weight, bias, running_mean, running_var, momentum, epsilon,
                                   ranks);
}

namespace {

at::Tensor batch_norm_here(const at::Tensor& input, const OptionalTensor& weight,
                           const OptionalTensor& bias, const OptionalTensor& running_mean,
                           const OptionalTensor& running_var, bool training, double momentum,
                           double epsilon, bool cudnn_enabled) {
  const RankStatisticsPtr ranks = training ? current_rank_statistics() : RankStatisticsPtr();
  const bool may_be_weight = input.size(0) == 1;
  if (!ranks || (!ranks->is_declared() && may_be_weight)) {
    return at::native::batch_norm(input, weight, bias, running_mean, running_var, training,
                                  momentum, epsilon, cudnn_enabled);
  }
  return batch_norm_over_ranks(input, weight, bias, running_mean, running_var, momentum, epsilon,
                               ranks);
}

/// Calls batch_norm without sharing statistics; it treats the channels of all samples as channels
/// of one sample.
at::Tensor instance_norm_here(const at::Tensor& input, const OptionalTensor& weight,
                              const OptionalTensor& bias, const OptionalTensor& running_mean,
                              const OptionalTensor& running_var, bool use_input_stats,
                              double momentum, double epsilon, bool cudnn_enabled) {
  const ScopedOwnStatistics own;
  return at::native::instance_norm(input, weight, bias, running_mean, running_var, use_input_stats,
                                   momentum, epsilon, cudnn_enabled);
}

}  // namespace

void take_over_batch_norm() {
  [[maybe_unused]] static const bool is_done = [] {
    static auto on_cpu = MAKE_TORCH_LIBRARY_IMPL(aten, AutogradCPU);
    static auto on_gpu = MAKE_TORCH_LIBRARY_IMPL(aten, AutogradCUDA);
    static auto on_meta = MAKE_TORCH_LIBRARY_IMPL(aten, AutogradMeta);
    for (torch::Library* const library : {&on_cpu, &on_gpu, &on_meta}) {
      library->impl("batch_norm", batch_norm_here);
      library->impl("instance_norm", instance_norm_here);
    }
    return true;
  }();
}

}  // namespace stages
