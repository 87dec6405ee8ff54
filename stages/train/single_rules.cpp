#include "stages/train/single_rules.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <torch/types.h>

namespace stages {
namespace {

std::int64_t rows_of(const at::Tensor& parameter) { return parameter.size(0); }
std::int64_t columns_of(const at::Tensor& parameter) {
  return parameter.size(0) == 0 ? 0 : parameter.numel() / parameter.size(0);
}

struct Scratch {
  const at::Tensor& parameter;
  bool is_matrix;

  template <typename Rule>
  std::vector<BlockPart> operator()(const Rule&) const {
    return {};
  }
  std::vector<BlockPart> operator()(const LionOptions&) const { return {part_like(parameter)}; }
  std::vector<BlockPart> operator()(const LambOptions&) const {
    return {part_like(parameter), part_like(parameter)};
  }
  std::vector<BlockPart> operator()(const AdafactorOptions&) const {
    if (parameter.dim() < 2) return {part_like(parameter)};
    const at::ScalarType type = parameter.scalar_type();
    const std::vector<std::int64_t> sizes = parameter.sizes().vec();
    std::vector<std::int64_t> row = sizes, column = sizes;
    row.back() = column[column.size() - 2] = 1;
    std::vector<std::int64_t> mean = row;
    mean[mean.size() - 2] = 1;
    return {part_like(parameter), {row, type}, {column, type}, {mean, type}};
  }
  std::vector<BlockPart> operator()(const MuonOptions&) const {
    if (!is_matrix) return {};
    const std::int64_t less = std::min(rows_of(parameter), columns_of(parameter)),
                       more = std::max(rows_of(parameter), columns_of(parameter));
    return {{{parameter.sizes().vec()}, parameter.scalar_type()},
            {{less, more}, at::kBFloat16},
            {{less, more}, at::kBFloat16},
            {{less, less}, at::kBFloat16},
            {{less, less}, at::kBFloat16},
            {{}, at::kBFloat16}};
  }
};

/// Shrinks the weights by learning_rate · weight_decay.
void decay(const SingleStep& one, double weight_decay) {
  if (weight_decay == 0) return;
  const at::ScalarType type = one.parameter.scalar_type();
  one.parameter.mul_(one.scalars.changed(type, -one.learning_rate * weight_decay));
}

}  // namespace

bool steps_singly(const OptimizerOptions& rule, bool is_matrix) {
  return std::holds_alternative<LionOptions>(rule) || std::holds_alternative<LambOptions>(rule) ||
         std::holds_alternative<AdafactorOptions>(rule) ||
         (std::holds_alternative<MuonOptions>(rule) && is_matrix);
}

std::vector<BlockPart> scratch_of(const OptimizerOptions& rule, const at::Tensor& parameter,
                                  bool is_matrix) {
  return std::visit(Scratch{parameter, is_matrix}, rule);
}

void step_singly(const LionOptions& rule, const SingleStep& one) {
  const at::ScalarType type = one.parameter.scalar_type();
  const double beta1 = one.momentum.value_or(rule.beta1);
  at::Tensor update = one.scratch[0];
  decay(one, rule.weight_decay);
  at::lerp_out(update, one.state.mean, one.gradient, 1 - beta1).sign_();
  one.parameter.addcmul_(update, one.scalars.kept(type, 1), -one.learning_rate);
  one.state.mean.lerp_(one.gradient, one.scalars.kept(type, 1 - rule.beta2));
}

void step_singly(const LambOptions& rule, const SingleStep& one) {
  const StepScalars& scalars = one.scalars;
  const at::ScalarType type = one.parameter.scalar_type();
  const double beta1 = one.momentum.value_or(rule.beta1);
  at::Tensor update = one.scratch[0], denominator = one.scratch[1];
  const ParameterState& state = one.state;
  state.age.add_(scalars.keep_float());
  state.mean.lerp_(one.gradient, scalars.kept(type, 1 - beta1));
  state.square.mul_(scalars.changed(type, rule.beta2 - 1));
  state.square.addcmul_(one.gradient, one.gradient, 1 - rule.beta2);

  // 1 - beta^age; at age 0, the step is skipped, and any number will do.
  const auto bias = [&](double beta, int index) {
    at::Tensor age = scalars.free(index).copy_(state.age), result = scalars.free(index + 1);
    age.clamp_min_(1);
    scalars.multiply(age, std::log(beta));
    at::expm1_out(result, age).neg_();
    return result;
  };
  at::sqrt_out(denominator, state.square);
  if (rule.beta2 > 0) denominator.div_(scalars.own(type, bias(rule.beta2, 0).sqrt_()));
  denominator.add_(scalars.number(type, rule.epsilon));
  if (beta1 > 0) at::div_out(update, state.mean, scalars.own(type, bias(beta1, 0)));
  else update.copy_(state.mean);
  update.div_(denominator);
  if (rule.weight_decay != 0) update.add_(one.parameter, rule.weight_decay);

  at::Tensor ratio = scalars.free(0).copy_(scalars.keep());
  if (rule.weight_decay != 0 || rule.always_adapt) {
    const at::Tensor norm = scalars.free(1), other = scalars.free(2), product = scalars.free(3);
    at::Tensor room = scalars.room(type, 0), truth = scalars.truth();
    norm.copy_(at::linalg_vector_norm_out(room, one.parameter, 2));
    other.copy_(at::linalg_vector_norm_out(room, update, 2));
    product.copy_(norm).mul_(other);
    norm.div_(other);
    // A ratio with a length of zero counts as 1. Computes nothing on the Meta device.
    if (!norm.is_meta()) norm.masked_fill_(truth.copy_(product).logical_not_(), 1);
    if (rule.trust_clip) norm.clamp_max_(1);
    ratio.mul_(norm);
  }
  one.parameter.addcmul_(update, scalars.own(type, ratio), -one.learning_rate);
}

void step_singly(const AdafactorOptions& rule, const SingleStep& one) {
  const StepScalars& scalars = one.scalars;
  const at::ScalarType type = one.parameter.scalar_type();
  const ParameterState& state = one.state;
  const double epsilon =
      rule.epsilon.value_or(type == at::kDouble ? std::numeric_limits<double>::epsilon()
                                                : std::numeric_limits<float>::epsilon());
  const double root = std::sqrt(static_cast<double>(one.parameter.numel()));
  at::Tensor update = one.scratch[0], room = scalars.room(type, 0);
  const at::Tensor size = scalars.free(0), weight = scalars.free(1), rate = scalars.free(2);

  state.age.add_(scalars.keep_float());
  weight.copy_(state.age).clamp_min_(1);
  rate.copy_(weight).rsqrt_().clamp_max_(one.learning_rate);
  weight.pow_(rule.beta2_decay).mul_(scalars.keep());
  size.copy_(at::linalg_vector_norm_out(room, one.parameter, 2));
  scalars.multiply(size, 1 / root);
  rate.mul_(size.clamp_min_(rule.minimum_scale));
  decay(one, rule.weight_decay);

  if (one.parameter.dim() > 1) {
    const auto mean_square = [&](at::Tensor& mean, std::int64_t dimension) {
      at::linalg_vector_norm_out(mean, one.gradient, 2, dimension, /*keepdim=*/true);
      mean.mul_(mean).div_(scalars.number(type, static_cast<double>(one.gradient.size(dimension))));
      return mean;
    };
    at::Tensor row = one.scratch[1], column = one.scratch[2], mean = one.scratch[3];
    state.row.lerp_(mean_square(row, -1), scalars.own(type, weight));
    state.column.lerp_(mean_square(column, -2), scalars.own(type, weight));
    at::mul_out(update, state.row, state.column);
    at::linalg_vector_norm_out(mean, state.row, 1, -2, /*keepdim=*/true);  // no row is negative
    mean.div_(scalars.number(type, static_cast<double>(state.row.size(-2)))).clamp_min_(epsilon);
    update.div_(mean);
  } else {
    at::mul_out(update, one.gradient, one.gradient);
    state.square.lerp_(update, scalars.own(type, weight));
    update.copy_(state.square);
  }
  update.clamp_min_(epsilon * epsilon).rsqrt_().mul_(one.gradient);
  size.copy_(at::linalg_vector_norm_out(room, update, 2));
  scalars.multiply(size, 1 / (root * rule.clip_threshold));
  rate.div_(size.clamp_min_(1)).mul_(scalars.keep());
  one.parameter.addcmul_(update, scalars.own(type, rate), -1);
}

void step_singly(const MuonOptions& rule, const SingleStep& one) {
  // The coefficients of Jordan's quintic iteration.
  constexpr double kLinear = 3.4445, kCubic = -4.7750, kQuintic = 2.0315;
  const at::ScalarType type = one.parameter.scalar_type();
  const double momentum = one.momentum.value_or(rule.momentum);
  const std::int64_t rows = rows_of(one.parameter), columns = columns_of(one.parameter);
  at::Tensor update = one.scratch[0], matrix = one.scratch[1], next = one.scratch[2],
             gram = one.scratch[3], polynomial = one.scratch[4], norm = one.scratch[5];

  const at::Tensor& mean = one.state.momentum;
  mean.lerp_(one.gradient, one.scalars.kept(type, 1 - momentum));
  if (rule.nesterov) at::lerp_out(update, one.gradient, mean, momentum);
  else update.copy_(mean);
  at::Tensor flat = update.view({rows, columns});
  if (rows > columns) flat = flat.t();

  matrix.copy_(flat);
  at::linalg_vector_norm_out(norm, matrix, 2).clamp_min_(rule.orthogonalization_epsilon);
  matrix.div_(norm);
  for (std::int64_t i = 0; i < rule.steps; ++i) {
    at::mm_out(gram, matrix, matrix.t());
    at::addmm_out(polynomial, gram, gram, gram, kCubic, kQuintic);
    at::addmm_out(next, matrix, polynomial, matrix, kLinear, 1);
    std::swap(matrix, next);
  }
  flat.copy_(matrix);

  const auto a = static_cast<double>(rows), b = static_cast<double>(columns);
  const double factor =
      rule.matches_adamw ? 0.2 * std::sqrt(std::max(a, b)) : std::sqrt(std::max(1.0, a / b));
  decay(one, rule.weight_decay);
  one.parameter.addcmul_(update, one.scalars.kept(type, 1), -one.learning_rate * factor);
}

}  // namespace stages
