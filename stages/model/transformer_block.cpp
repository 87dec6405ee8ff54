#include "stages/model/transformer_block.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include <ATen/ScalarOps.h>
#include <torch/autograd.h>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "stages/numerics/sharded_build.h"
#include "stages/tensor/parallel.h"

namespace stages {
namespace {

using torch::autograd::AutogradContext, torch::autograd::variable_list;
using Tensors = std::vector<at::Tensor>;

/// Number of elements per piece. Pieces of this size, of two or three tensors, stay in a core's
/// cache from one operator to the next. With smaller pieces, starting the operators costs more than
/// the cache saves.
constexpr std::int64_t kPieceElements = 1 << 16;

/// Applies the elementwise `work` to tensors of the same type and shape. On a CPU, it works piece
/// by piece, so several operators read and write memory only once. Torch computes the last elements
/// of each thread's share with different instructions; pieces make the result independent of the
/// number of threads.
void in_pieces(const Tensors& tensors, const std::function<void(const Tensors&)>& work) {
  const at::Tensor& first = tensors.front();
  const bool lie_alike = std::ranges::all_of(tensors, [&first](const at::Tensor& one) {
    return one.is_non_overlapping_and_dense() && one.strides() == first.strides();
  });
  if (!first.is_cpu() || !lie_alike) return work(tensors);
  const std::int64_t count = first.numel(), pieces = (count + kPieceElements - 1) / kPieceElements;
  parallel_for(pieces, /*grain=*/1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t piece = begin; piece < end; ++piece) {
      const std::int64_t from = piece * kPieceElements;
      Tensors parts;
      for (const at::Tensor& one : tensors) {
        auto* const memory = static_cast<char*>(one.data_ptr()) +
                             from * static_cast<std::int64_t>(one.element_size());
        parts.push_back(
            at::from_blob(memory, {std::min(kPieceElements, count - from)}, one.options()));
      }
      work(parts);
    }
  });
}

/// Computes x · sigmoid(1.702 x), and saves only x. torch's operators would also save the sigmoid.
class QuickGelu : public torch::autograd::Function<QuickGelu> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x) {
    context->save_for_backward({x});
    const at::Tensor slope = at::native::wrapped_scalar_tensor(kSlope);
    const at::Tensor y = at::empty_like(x);
    in_pieces({x, y}, [&slope](const Tensors& parts) {
      at::Tensor to = parts[1];
      at::mul_out(to, parts[0], slope);
      to.sigmoid_();
      to.mul_(parts[0]);
    });
    return y;
  }

  /// quick_gelu(x) is silu(1.702 x) / 1.702, so its derivative equals that of silu at 1.702 x.
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    if (torch::GradMode::is_enabled())
      throw std::logic_error("quick_gelu does not support double backward");
    const at::Tensor x = context->get_saved_variables()[0];
    const at::Tensor slope = at::native::wrapped_scalar_tensor(kSlope);
    const at::Tensor dx = at::empty_like(x);
    in_pieces({x, gradients[0], dx}, [&slope](const Tensors& parts) {
      at::Tensor to = parts[2];
      at::mul_out(to, parts[0], slope);
      at::silu_backward_out(to, parts[1], to);
    });
    return {dx};
  }

 private:
  static constexpr double kSlope = 1.702;
};

}  // namespace

std::string_view name(Activation activation) {
  switch (activation) {
    case Activation::kQuickGelu:
      return "quick_gelu";
    case Activation::kGelu:
      return "gelu";
  }
  assert(false);
  return "";
}

Activation activation_named(std::string_view word) {
  const auto* const found =
      std::ranges::find(kActivations, word, [](const auto& item) { return item.first; });
  assert(found != kActivations.end());
  return found->second;
}

at::Tensor activate(Activation activation, const at::Tensor& x) {
  switch (activation) {
    case Activation::kQuickGelu:
      return QuickGelu::apply(x);
    case Activation::kGelu:
      return torch::gelu(x);
  }
  assert(false);
  return {};
}

namespace {

/// A module that computes nothing and only adds a level to the dotted names.
class Level : public torch::nn::Module {};

/// Returns the result of a branch, scaled if there is a layer scale.
at::Tensor scaled_by(const std::shared_ptr<LayerScale>& scale, const at::Tensor& y) {
  return scale ? scale->forward(y) : y;
}

/// Returns a view of the first token in tokens of shape (n, tokens, width).
at::Tensor first_token(const at::Tensor& tokens) { return tokens.narrow(1, 0, 1); }

/// Returns x + y. Overwrites `y` if it has the type of `x` and is not a view; no gradient needs it.
at::Tensor added_to(at::Tensor y, const at::Tensor& x) {
  return y.scalar_type() == x.scalar_type() && !y.is_view() ? y.add_(x) : x + y;
}

}  // namespace

// The children of each module are registered in the order of HF's state dict; the formulas for
// weights rely on this order.

Attention::Attention(const BlockOptions& block, const at::TensorOptions& options)
    : heads_(block.num_attention_heads), is_causal_(block.is_causal) {
  const std::int64_t width = block.hidden_size;
  assert(heads_ > 0 && width % heads_ == 0);
  const auto linear = [&](const char* name, std::int64_t outputs) {
    return register_module(name, std::make_shared<Linear>(width, outputs, true, options));
  };
  if (block.fused_qkv) {
    fused_ = linear("qkv", 3 * width);
  } else {
    keys_ = linear("k_proj", width);
    values_ = linear("v_proj", width);
    queries_ = linear("q_proj", width);
  }
  out_ = linear("out_proj", width);
  dropout_ = register_module("dropout", std::make_shared<Dropout>(block.attention_dropout));
}

at::Tensor Attention::split_heads(const at::Tensor& y) const {
  return y.view({y.size(0), y.size(1), heads_, y.size(2) / heads_}).transpose(1, 2);
}

Attention::Heads Attention::project(const at::Tensor& x, Tokens asking) const {
  if (!fused_) {
    const at::Tensor asks = asking == Tokens::kFirst ? first_token(x) : x;
    return {split_heads(queries_->forward(asks)), split_heads(keys_->forward(x)),
            split_heads(values_->forward(x))};
  }
  const at::Tensor all = fused_->forward(x);  // (n, tokens, 3 width)
  const at::Tensor parts =
      all.view({all.size(0), all.size(1), 3, heads_, -1}).permute({2, 0, 3, 1, 4});
  return {asking == Tokens::kFirst ? parts[0].narrow(2, 0, 1) : parts[0], parts[1], parts[2]};
}

at::Tensor Attention::forward_first(const at::Tensor& x) const {
  assert(!is_causal_);
  return forward_of(x, [this](const at::Tensor& input) { return attend(input, Tokens::kFirst); });
}

at::Tensor Attention::attend(const at::Tensor& input, Tokens asking) const {
  const OwnPrecision own(*this);
  const at::Tensor x = own(input);
  at::Tensor attended;
  if (dropout_->is_active()) {
    // torch's own attention draws its masks from a global generator. Here the mask depends on an
    // element's position among the attention weights of all tokens.
    const auto [queries, keys, values] = project(x, Tokens::kAll);
    const double scale = 1 / std::sqrt(static_cast<double>(queries.size(3)));
    at::Tensor scores = (queries * scale).matmul(keys.transpose(2, 3));
    if (is_causal_) {
      const at::Tensor later =
          torch::ones({x.size(1), x.size(1)}, scores.options().dtype(at::kBool)).triu(1);
      scores = scores.masked_fill(later, -std::numeric_limits<double>::infinity());
    }
    const at::Tensor weights = dropout_->forward(torch::softmax(scores, -1));
    attended = (asking == Tokens::kFirst ? weights.narrow(2, 0, 1) : weights).matmul(values);
  } else {
    const auto [queries, keys, values] = project(x, asking);
    attended = torch::scaled_dot_product_attention(queries, keys, values, /*attn_mask=*/{},
                                                   /*dropout_p=*/0, is_causal_);
  }
  return out_->forward(attended.transpose(1, 2).reshape({x.size(0), attended.size(2), x.size(2)}));
}

Mlp::Mlp(std::int64_t width, std::int64_t inner_width, Activation activation,
         const at::TensorOptions& options)
    : activation_(activation),
      first_(register_module("fc1", std::make_shared<Linear>(width, inner_width, true, options))),
      second_(register_module("fc2", std::make_shared<Linear>(inner_width, width, true, options))) {
}

at::Tensor Mlp::compute(const at::Tensor& x) const {
  const OwnPrecision own(*this);
  return second_->forward(activate(activation_, first_->forward(own(x))));
}

TransformerBlock::TransformerBlock(const BlockOptions& block, double drop_path,
                                   const at::TensorOptions& options)
    : attention_(register_module("self_attn", std::make_shared<Attention>(block, options))),
      norm_before_attention_(register_module(
          "layer_norm1",
          std::make_shared<LayerNorm>(block.hidden_size, block.layer_norm_eps, options))),
      mlp_(register_module("mlp", std::make_shared<Mlp>(block.hidden_size, block.intermediate_size,
                                                        block.hidden_act, options))),
      norm_before_mlp_(register_module(
          "layer_norm2",
          std::make_shared<LayerNorm>(block.hidden_size, block.layer_norm_eps, options))),
      path_of_attention_(register_module(
          "drop_path1", std::make_shared<Dropout>(drop_path, DropoutUnit::kSample))),
      path_of_mlp_(register_module("drop_path2",
                                   std::make_shared<Dropout>(drop_path, DropoutUnit::kSample))) {
  if (!block.layer_scale) return;
  const auto scale = [&](const char* name) {
    return register_module(name, std::make_shared<LayerScale>(block.hidden_size, options));
  };
  scale_of_attention_ = scale("layer_scale1");
  scale_of_mlp_ = scale("layer_scale2");
}

at::Tensor TransformerBlock::add_mlp(const at::Tensor& x) const {
  return added_to(
      path_of_mlp_->forward(scaled_by(scale_of_mlp_, mlp_->forward(norm_before_mlp_->forward(x)))),
      x);
}

at::Tensor TransformerBlock::compute(const at::Tensor& input) const {
  const OwnPrecision own(*this);
  const at::Tensor x = own(input);
  return add_mlp(
      added_to(path_of_attention_->forward(scaled_by(
                   scale_of_attention_, attention_->forward(norm_before_attention_->forward(x)))),
               x));
}

at::Tensor TransformerBlock::compute_first(const at::Tensor& input) const {
  const OwnPrecision own(*this);
  const at::Tensor x = own(input);
  const at::Tensor seen =
      scaled_by(scale_of_attention_, attention_->forward_first(norm_before_attention_->forward(x)));
  return add_mlp(added_to(path_of_attention_->forward(seen), first_token(x)));
}

at::Tensor TransformerBlock::forward_first(const at::Tensor& x) const {
  return forward_of(x, [this](const at::Tensor& input) { return compute_first(input); });
}

std::vector<std::shared_ptr<TransformerBlock>> register_blocks(torch::nn::Module& tower,
                                                               const BlockOptions& block,
                                                               std::int64_t count, double drop_path,
                                                               const at::TensorOptions& options) {
  const auto encoder = tower.register_module("encoder", std::make_shared<Level>());
  const auto layers = encoder->register_module("layers", std::make_shared<Level>());
  std::vector<std::shared_ptr<TransformerBlock>> blocks;
  for (std::int64_t i = 0; i < count; ++i) {
    const double depth = i == 0 ? 0 : static_cast<double>(i) / static_cast<double>(count - 1);
    blocks.push_back(layers->register_module(
        std::to_string(i), make_block<TransformerBlock>(block, depth * drop_path, options)));
  }
  return blocks;
}

}  // namespace stages
