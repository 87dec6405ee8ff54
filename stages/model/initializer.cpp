#include "stages/model/initializer.h"

#include <cassert>
#include <cmath>

#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "runner/shared/stage/split_mix.h"
#include "stages/tensor/tensor_memory.h"

namespace stages {

at::Generator weight_generator(std::string_view name, std::uint64_t seed) {
  return at::detail::createCPUGenerator(
      runner::split_mix(runner::fnv1a(name) + seed * runner::kSplitMixStep));
}

Distribution initial_distribution(std::string_view name, const InitializerOptions& options,
                                  std::int64_t head_inputs) {
  const double per_width = 1 / std::sqrt(static_cast<double>(options.hidden_size));
  const double per_depth = 1 / std::sqrt(2.0 * static_cast<double>(options.num_hidden_layers));
  const auto normal = [&](double scale) {
    return Distribution{Distribution::Kind::kNormal, scale * options.factor};
  };
  if (name.starts_with("head.") || name.starts_with("class_head.")) {
    return {Distribution::Kind::kUniform, 1 / std::sqrt(static_cast<double>(head_inputs))};
  }
  if (name.ends_with(".lambda1")) return {Distribution::Kind::kOne};
  if (name.ends_with(".register_tokens")) return {Distribution::Kind::kZero};
  const bool is_norm = name.find("norm") != name.npos;
  if (options.rule == InitializerRule::kVit && !is_norm && !name.ends_with(".bias"))
    return normal(options.range);
  if (name.ends_with(".class_embedding")) return normal(per_width);
  if (name.ends_with(".patch_embedding.weight") || name.ends_with(".position_embedding.weight") ||
      name.ends_with(".token_embedding.weight")) {
    return normal(options.range);
  }
  if (name.ends_with(".q_proj.weight") || name.ends_with(".k_proj.weight") ||
      name.ends_with(".v_proj.weight") || name.ends_with(".qkv.weight")) {
    return normal(per_width * per_depth);
  }
  if (name.ends_with(".out_proj.weight")) return normal(per_width);
  if (name.ends_with(".fc1.weight")) return normal(per_width / std::sqrt(2.0));
  if (name.ends_with(".fc2.weight")) return normal(per_width * per_depth);
  if (name == "visual_projection.weight" || name == "text_projection.weight")
    return normal(per_width);
  if (name.ends_with(".weight"))
    return {Distribution::Kind::kOne};  // the weight of a norm; other weights are handled above
  assert(name.ends_with(".bias"));
  return {Distribution::Kind::kZero};
}

void draw_weight(const at::Tensor& weight, const Distribution& distribution, std::string_view name,
                 std::uint64_t seed) {
  if (!has_memory(weight)) return;
  const torch::NoGradGuard no_graph;
  switch (distribution.kind) {
    case Distribution::Kind::kZero:
      weight.zero_();
      break;
    case Distribution::Kind::kOne:
      weight.fill_(1);
      break;
    case Distribution::Kind::kNormal:
      weight.normal_(0, distribution.scale, weight_generator(name, seed));
      break;
    case Distribution::Kind::kUniform:
      weight.uniform_(-distribution.scale, distribution.scale, weight_generator(name, seed));
      break;
  }
}

void initialize(torch::nn::Module& network, const InitializerOptions& options, std::uint64_t seed,
                const std::function<bool(std::string_view)>& wanted) {
  const torch::NoGradGuard no_graph;
  const auto weights = network.named_parameters();
  const at::Tensor* head = weights.find("head.weight");
  if (!head) head = weights.find("class_head.weight");
  const std::int64_t head_inputs = head ? head->size(1) : 1;
  for (const auto& item : weights) {
    if (!has_memory(item.value()) || (wanted && !wanted(item.key()))) continue;
    const bool is_narrow = item.value().scalar_type() != at::kFloat;
    const at::Tensor weight =
        is_narrow ? torch::empty_like(item.value(), at::kFloat) : item.value();
    draw_weight(weight, initial_distribution(item.key(), options, head_inputs), item.key(), seed);
    if (is_narrow) item.value().copy_(weight);
  }
}

}  // namespace stages
