#include "stages/model/transformer_block.h"

#include <cassert>
#include <cmath>

#include <torch/torch.h>

namespace stages {
namespace {

/// The first of the tokens (n, tokens, width), as a view.
at::Tensor first_token(const at::Tensor& tokens) { return tokens.narrow(1, 0, 1); }

/// x + y, written over `y`, of which nobody has kept anything, where that has the type of the sum.
at::Tensor added_to(at::Tensor y, const at::Tensor& x) {
  return y.scalar_type() == x.scalar_type() && !y.is_view() ? y.add_(x) : x + y;
}

}  // namespace

// The children of each module are registered in the order of HF's state dict, which formulas for weights count along.

Attention::Attention(std::int64_t width, std::int64_t heads, bool fused_qkv, double dropout,
                     const at::TensorOptions& options)
    : heads_(heads) {
  assert(heads > 0 && width % heads == 0);
  const auto linear = [&](const char* name, std::int64_t outputs) {
    return register_module(name, std::make_shared<Linear>(width, outputs, true, options));
  };
  if (fused_qkv) {
    fused_ = linear("qkv", 3 * width);
  } else {
    keys_ = linear("k_proj", width);
    values_ = linear("v_proj", width);
    queries_ = linear("q_proj", width);
  }
  out_ = linear("out_proj", width);
  dropout_ = register_module("dropout", std::make_shared<Dropout>(dropout));
}

at::Tensor Attention::split_heads(const at::Tensor& y) const {
  return y.view({y.size(0), y.size(1), heads_, y.size(2) / heads_}).transpose(1, 2);
}

Attention::Heads Attention::project(const at::Tensor& x, Tokens asking) const {
  if (!fused_) {
    const at::Tensor asks = asking == Tokens::kFirst ? first_token(x) : x;
    return {split_heads(queries_->forward(asks)), split_heads(keys_->forward(x)), split_heads(values_->forward(x))};
  }
  const at::Tensor all = fused_->forward(x);  // (n, tokens, 3 width)
  const at::Tensor parts = all.view({all.size(0), all.size(1), 3, heads_, -1}).permute({2, 0, 3, 1, 4});
  return {asking == Tokens::kFirst ? parts[0].narrow(2, 0, 1) : parts[0], parts[1], parts[2]};
}

at::Tensor Attention::forward_first(const at::Tensor& x) const {
  return forward_of(x, [this](const at::Tensor& input) { return attend(input, Tokens::kFirst); });
}

at::Tensor Attention::attend(const at::Tensor& input, Tokens asking) const {
  const OwnPrecision own(*this);
  const at::Tensor x = own(input);
  at::Tensor attended;
  if (dropout_->is_active()) {
    // torch's own attention draws its masks from a global generator. What is dropped goes by an element's place among
    // the weights of all tokens.
    const auto [queries, keys, values] = project(x, Tokens::kAll);
    const double scale = 1 / std::sqrt(static_cast<double>(queries.size(3)));
    const at::Tensor weights = dropout_->forward(torch::softmax((queries * scale).matmul(keys.transpose(2, 3)), -1));
    attended = (asking == Tokens::kFirst ? weights.narrow(2, 0, 1) : weights).matmul(values);
  } else {
    const auto [queries, keys, values] = project(x, asking);
    attended = torch::scaled_dot_product_attention(queries, keys, values);
  }
  return out_->forward(attended.transpose(1, 2).reshape({x.size(0), attended.size(2), x.size(2)}));
}

Mlp::Mlp(std::int64_t width, std::int64_t inner_width, Activation activation, const at::TensorOptions& options)
    : activation_(activation),
      first_(register_module("fc1", std::make_shared<Linear>(width, inner_width, true, options))),
      second_(register_module("fc2", std::make_shared<Linear>(inner_width, width, true, options))) {}

at::Tensor Mlp::compute(const at::Tensor& x) const {
  const OwnPrecision own(*this);
  return second_->forward(activate(activation_, first_->forward(own(x))));
}

TransformerBlock::TransformerBlock(const BlockOptions& block, double drop_path, const at::TensorOptions& options)
    : attention_(
          register_module("self_attn", std::make_shared<Attention>(block.hidden_size, block.num_attention_heads,
                                                                   block.fused_qkv, block.attention_dropout, options))),
      norm_before_attention_(register_module(
          "layer_norm1", std::make_shared<LayerNorm>(block.hidden_size, block.layer_norm_eps, options))),
      mlp_(register_module(
          "mlp", std::make_shared<Mlp>(block.hidden_size, block.intermediate_size, block.hidden_act, options))),
      norm_before_mlp_(register_module("layer_norm2",
                                       std::make_shared<LayerNorm>(block.hidden_size, block.layer_norm_eps, options))),
      path_of_attention_(register_module("drop_path1", std::make_shared<Dropout>(drop_path, DropoutUnit::kSample))),
      path_of_mlp_(register_module("drop_path2", std::make_shared<Dropout>(drop_path, DropoutUnit::kSample))) {}

at::Tensor TransformerBlock::add_mlp(const at::Tensor& x) const {
  return added_to(path_of_mlp_->forward(mlp_->forward(norm_before_mlp_->forward(x))), x);
}

at::Tensor TransformerBlock::compute(const at::Tensor& input) const {
  const OwnPrecision own(*this);
  const at::Tensor x = own(input);
  return add_mlp(added_to(path_of_attention_->forward(attention_->forward(norm_before_attention_->forward(x))), x));
}

at::Tensor TransformerBlock::compute_first(const at::Tensor& input) const {
  const OwnPrecision own(*this);
  const at::Tensor x = own(input);
  const at::Tensor seen = attention_->forward_first(norm_before_attention_->forward(x));
  return add_mlp(added_to(path_of_attention_->forward(seen), first_token(x)));
}

at::Tensor TransformerBlock::forward_first(const at::Tensor& x) const {
  return forward_of(x, [this](const at::Tensor& input) { return compute_first(input); });
}

}  // namespace stages
