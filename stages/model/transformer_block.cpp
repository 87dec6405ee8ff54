#include "stages/model/transformer_block.h"

#include <cassert>
#include <cmath>

#include <torch/torch.h>

namespace stages {

at::Tensor activate(Activation activation, const at::Tensor& x) {
  switch (activation) {
    case Activation::kQuickGelu:
      return x * torch::sigmoid(1.702 * x);
    case Activation::kGelu:
      return torch::gelu(x);
  }
  assert(false);
  return {};
}

// The children of each module are registered in the order of HF's state dict, which formulas for weights count along.

Attention::Attention(std::int64_t width, std::int64_t heads, double dropout, const at::TensorOptions& options)
    : heads_(heads),
      keys_(register_module("k_proj", std::make_shared<Linear>(width, width, true, options))),
      values_(register_module("v_proj", std::make_shared<Linear>(width, width, true, options))),
      queries_(register_module("q_proj", std::make_shared<Linear>(width, width, true, options))),
      out_(register_module("out_proj", std::make_shared<Linear>(width, width, true, options))),
      dropout_(register_module("dropout", std::make_shared<Dropout>(dropout))) {
  assert(heads > 0 && width % heads == 0);
}

at::Tensor Attention::forward(const at::Tensor& input) const {
  const OwnPrecision own(*this);
  const at::Tensor x = own(input);
  const auto split_heads = [&](const at::Tensor& y) {
    return y.view({x.size(0), x.size(1), heads_, y.size(2) / heads_}).transpose(1, 2);
  };
  const at::Tensor queries = split_heads(queries_->forward(x)), keys = split_heads(keys_->forward(x)),
                   values = split_heads(values_->forward(x));
  at::Tensor attended;
  if (dropout_->is_active()) {
    // torch's own attention draws its masks from a global generator.
    const double scale = 1 / std::sqrt(static_cast<double>(queries.size(3)));
    const at::Tensor weights = torch::softmax((queries * scale).matmul(keys.transpose(2, 3)), -1);
    attended = dropout_->forward(weights).matmul(values);
  } else {
    attended = torch::scaled_dot_product_attention(queries, keys, values);
  }
  return out_->forward(attended.transpose(1, 2).reshape(x.sizes()));
}

Mlp::Mlp(std::int64_t width, std::int64_t inner_width, Activation activation, const at::TensorOptions& options)
    : activation_(activation),
      first_(register_module("fc1", std::make_shared<Linear>(width, inner_width, true, options))),
      second_(register_module("fc2", std::make_shared<Linear>(inner_width, width, true, options))) {}

at::Tensor Mlp::forward(const at::Tensor& x) const {
  const OwnPrecision own(*this);
  return second_->forward(activate(activation_, first_->forward(own(x))));
}

TransformerBlock::TransformerBlock(const BlockOptions& block, double drop_path, const at::TensorOptions& options)
    : attention_(register_module("self_attn", std::make_shared<Attention>(block.hidden_size, block.num_attention_heads,
                                                                          block.attention_dropout, options))),
      norm_before_attention_(register_module(
          "layer_norm1", std::make_shared<LayerNorm>(block.hidden_size, block.layer_norm_eps, options))),
      mlp_(register_module(
          "mlp", std::make_shared<Mlp>(block.hidden_size, block.intermediate_size, block.hidden_act, options))),
      norm_before_mlp_(register_module("layer_norm2",
                                       std::make_shared<LayerNorm>(block.hidden_size, block.layer_norm_eps, options))),
      path_of_attention_(register_module("drop_path1", std::make_shared<Dropout>(drop_path, DropoutUnit::kSample))),
      path_of_mlp_(register_module("drop_path2", std::make_shared<Dropout>(drop_path, DropoutUnit::kSample))) {}

at::Tensor TransformerBlock::forward(const at::Tensor& input) const {
  const OwnPrecision own(*this);
  const at::Tensor x = own(input);
  const at::Tensor attended = x + path_of_attention_->forward(attention_->forward(norm_before_attention_->forward(x)));
  return attended + path_of_mlp_->forward(mlp_->forward(norm_before_mlp_->forward(attended)));
}

}  // namespace stages
