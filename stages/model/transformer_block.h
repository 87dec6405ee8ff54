#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "stages/model/layers.h"
#include "stages/numerics/recomputable_module.h"
#include "stages/random/dropout.h"

namespace stages {

/// The activation between the two layers of a block's MLP.
enum class Activation {
  kQuickGelu,  ///< x · sigmoid(1.702 x), as in OpenAI's weights
  kGelu,       ///< x · Φ(x), computed with the error function
};

/// The names of the activations in recipes and configs.
inline constexpr std::array<std::pair<std::string_view, Activation>, 2> kActivations = {
    {{"quick_gelu", Activation::kQuickGelu}, {"gelu", Activation::kGelu}}};
std::string_view name(Activation activation);
/// Returns the activation with the given name, which must be in kActivations.
Activation activation_named(std::string_view word);

/// Applies the activation to each element. Only `x` is saved for the backward pass. For any number
/// of threads, quick_gelu is bitwise equal to torch's `x * sigmoid(1.702 * x)` on one thread; its
/// double backward throws std::logic_error.
at::Tensor activate(Activation activation, const at::Tensor& x);

/// The options shared by all blocks of a tower.
struct BlockOptions {
  std::int64_t hidden_size = 0;          ///< width of a token
  std::int64_t intermediate_size = 0;    ///< width inside the MLP
  std::int64_t num_attention_heads = 0;  ///< must divide hidden_size
  Activation hidden_act = Activation::kQuickGelu;
  double layer_norm_eps = 0;
  double attention_dropout = 0;  ///< probability
  bool fused_qkv = false;        ///< queries, keys and values share one layer, as in timm
  bool is_causal = false;        ///< a token attends only to itself and the tokens before it
  bool layer_scale = false;      ///< each branch's channels are scaled, as in DINOv2
};

/// Multi-head self-attention over the tokens of each row (Vaswani et al. 2017, arXiv:1706.03762).
/// Maps (n, tokens, width) to the same shape. Each token attends to all tokens or, with causal
/// attention, to itself and the tokens before it. In training, attention weights are dropped with
/// probability attention_dropout. Children: k_proj, v_proj and q_proj, or a fused qkv with rows for
/// queries, keys and values in that order; out_proj and dropout. All linear layers have biases.
class Attention : public RecomputableModule {
 public:
  /// hidden_size of `block` must be a multiple of num_attention_heads.
  Attention(const BlockOptions& block, const at::TensorOptions& options);
  /// Returns the result of forward() for the first token only, of shape (n, 1, width). The
  /// attention must not be causal.
  at::Tensor forward_first(const at::Tensor& x) const;

 private:
  enum class Tokens { kAll, kFirst };  // the tokens for which attention is computed
  at::Tensor compute(const at::Tensor& x) const override { return attend(x, Tokens::kAll); }
  at::Tensor attend(const at::Tensor& x, Tokens asking) const;

  const std::int64_t heads_;
  const bool is_causal_;
  struct Heads {
    at::Tensor queries, keys, values;  // (n, heads, tokens, width / heads)
  };
  Heads project(const at::Tensor& x, Tokens asking) const;
  at::Tensor split_heads(const at::Tensor& y) const;

  std::shared_ptr<Linear> keys_, values_, queries_, fused_,
      out_;  // fused_ replaces the first three
  std::shared_ptr<Dropout> dropout_;
};

/// Two linear layers with an activation between them. Children: fc1, fc2.
class Mlp : public RecomputableModule {
 public:
  Mlp(std::int64_t width, std::int64_t inner_width, Activation activation,
      const at::TensorOptions& options);

 private:
  at::Tensor compute(const at::Tensor& x) const override;

  const Activation activation_;
  std::shared_ptr<Linear> first_, second_;
};

/// A transformer block: x += attention(norm(x)); x += mlp(norm(x)). With layer_scale, each channel
/// of both branches is multiplied by a weight (Touvron et al. 2021, arXiv:2103.17239). In training,
/// each addition is skipped with probability `drop_path` for each sample. Children: self_attn,
/// layer_norm1, mlp, layer_norm2, drop_path1, drop_path2 and, if used, layer_scale1, layer_scale2.
class TransformerBlock : public RecomputableModule {
 public:
  TransformerBlock(const BlockOptions& block, double drop_path, const at::TensorOptions& options);
  bool is_block() const override { return true; }
  /// Returns the result of forward() for the first token only, (n, 1, width); for the other tokens
  /// only keys and values are computed. The result and all gradients equal those of forward() in
  /// exact arithmetic, with the same dropout names.
  at::Tensor forward_first(const at::Tensor& x) const;

 private:
  at::Tensor compute(const at::Tensor& x) const override;
  at::Tensor compute_first(const at::Tensor& x) const;
  /// Computes the second half of the block; `x` already includes the result of the attention.
  at::Tensor add_mlp(const at::Tensor& x) const;

  std::shared_ptr<Attention> attention_;
  std::shared_ptr<LayerNorm> norm_before_attention_;
  std::shared_ptr<Mlp> mlp_;
  std::shared_ptr<LayerNorm> norm_before_mlp_;
  std::shared_ptr<Dropout> path_of_attention_, path_of_mlp_;
  std::shared_ptr<LayerScale> scale_of_attention_, scale_of_mlp_;  // null: none
};

/// Creates the blocks of a tower and registers them there under HF's names, encoder.layers.<i>. The
/// probability of skipping a branch rises in equal steps from 0 at the first block to `drop_path`
/// at the last.
std::vector<std::shared_ptr<TransformerBlock>> register_blocks(torch::nn::Module& tower,
                                                               const BlockOptions& block,
                                                               std::int64_t count, double drop_path,
                                                               const at::TensorOptions& options);

}  // namespace stages
