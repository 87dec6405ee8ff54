#include "stages/train/gradient_clip.h"

#include <algorithm>
#include <numeric>
#include <string>

#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "runner/shared/stage/config_reader.h"

namespace stages {
namespace {

/// Returns the norm of each unit, in a shape that broadcasts to the tensor's.
at::Tensor unit_norms(const at::Tensor& tensor) {
  if (tensor.dim() <= 1) return torch::linalg_vector_norm(tensor, 2);
  std::vector<std::int64_t> within(static_cast<std::size_t>(tensor.dim() - 1));
  std::iota(within.begin(), within.end(), 1);
  return torch::linalg_vector_norm(tensor, 2, within, /*keepdim=*/true);
}

void clip_adaptively(const at::Tensor& parameter, const AdaptiveClip& clip) {
  constexpr double kSmallest = 1e-6;  // as in timm
  const at::Tensor gradient = parameter.grad();
  const at::Tensor limit = unit_norms(parameter).clamp_min_(clip.epsilon).mul_(clip.factor);
  const at::Tensor norm = unit_norms(gradient);
  at::Tensor factor = limit / norm.clamp_min(kSmallest);
  const at::Tensor is_short = norm.lt(limit);
  // Computes nothing on the Meta device, for which LibTorch lacks this kernel.
  if (!factor.is_meta()) factor.masked_fill_(is_short, 1);
  gradient.mul_(factor);
}

}  // namespace

std::optional<AdaptiveClip> read_adaptive_clip(runner::ConfigReader& reader) {
  const runner::Value* given = reader.raw("adaptive_gradient_clip");
  if (!given || given->is_null()) return {};
  runner::ConfigReader& options = reader.section("adaptive_gradient_clip");
  AdaptiveClip clip;
  options.read("factor", clip.factor);
  options.read("epsilon", clip.epsilon);
  options.read("skip_head", clip.skip_head);
  return clip;
}

std::vector<at::Tensor> last_layer(const torch::nn::Module& network) {
  const auto parameters = network.named_parameters();
  if (parameters.is_empty()) return {};
  const auto module_of = [](const std::string& name) {
    const std::size_t dot = name.rfind('.');
    return dot == name.npos ? "" : name.substr(0, dot);
  };
  const std::string last = module_of(parameters.back().key());
  std::vector<at::Tensor> result;
  for (const auto& item : parameters) {
    if (module_of(item.key()) == last) result.push_back(item.value());
  }
  return result;
}

void clip_each(const std::vector<at::Tensor>& parameters, const GradientClip& clip) {
  const torch::NoGradGuard no_graph;
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : parameters) {
    if (parameter.grad().defined()) gradients.push_back(parameter.grad());
  }
  if (clip.value && !gradients.empty()) {
    at::_foreach_clamp_min_(gradients, -*clip.value);
    at::_foreach_clamp_max_(gradients, *clip.value);
  }
  if (!clip.adaptive) return;
  for (const at::Tensor& parameter : parameters) {
    const auto is_same = [&](const at::Tensor& other) { return other.is_same(parameter); };
    if (parameter.grad().defined() && std::ranges::none_of(clip.head, is_same))
      clip_adaptively(parameter, *clip.adaptive);
  }
}

at::Tensor global_norm(at::TensorList gradients) {
  return torch::linalg_vector_norm(torch::stack(at::_foreach_norm(gradients, 2)), 2);
}

at::Tensor clip_divisor(const at::Tensor& norm, double limit) {
  return ((norm + 1e-6) / limit).clamp_min(1.0);
}

}  // namespace stages
