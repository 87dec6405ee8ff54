#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <torch/nn/module.h>

#include "stages/dropout_mask.h"

namespace stages {

/// What all random numbers of one optimizer step are a function of.
struct StepKey {
  std::uint64_t seed = 0;
  std::int64_t step = 0;  ///< 0 to 2^32 - 1
};

/// In training drops units of its input with a probability and multiplies what it keeps by 1 / (1 - probability):
/// dropout (Srivastava et al. 2014) of elements; stochastic depth (Huang et al. 2016, arXiv:1603.09382) of samples,
/// where it stands behind a residual branch. Otherwise the identity.
///
/// The mask is a function of the step and the samples that a ScopedDropout names, and of the layer's place in its
/// network (stages/dropout_mask.h). Nothing but these names is kept for the backward, which makes the mask anew.
class Dropout : public torch::nn::Module {
 public:
  explicit Dropout(double probability, DropoutUnit unit = DropoutUnit::kElement);

  /// `x` has a row for each sample of the scope. Throws std::logic_error in training outside a scope, and
  /// std::invalid_argument on another number of rows.
  at::Tensor forward(const at::Tensor& x) const;
  /// True if forward() is not the identity.
  bool is_active() const { return probability_ > 0 && is_training(); }

 private:
  friend class ScopedDropout;
  struct Names {
    StepKey key;
    std::uint32_t layer;
    at::Tensor samples;
  };

  const double probability_;
  const DropoutUnit unit_;
  std::optional<Names> names_;  // set by the innermost scope
};

/// Tells all dropout layers of a network what step it is and which samples its rows are, for as long as they go forward
/// and backward; a layer's number is its place among them. Take the same network each time, and a part of it never:
///
///   const ScopedDropout dropout(network, {seed, step}, part.indices);
///   step.encode(network, part);  // and its backward
///
/// A second pass or a recomputation under the same names sees the same masks, and so does any other cut of the batch.
/// A sample that is in a batch twice has one mask. The network must outlive the scope and keep its modules.
class [[nodiscard]] ScopedDropout {
 public:
  /// `samples`: positions in the dataset, 0 to 2^32 - 1, one a row. Throws std::invalid_argument on others.
  ScopedDropout(torch::nn::Module& network, const StepKey& key, const std::vector<std::int64_t>& samples);
  ~ScopedDropout();
  ScopedDropout(const ScopedDropout&) = delete;
  ScopedDropout& operator=(const ScopedDropout&) = delete;

 private:
  std::vector<std::pair<Dropout*, std::optional<Dropout::Names>>> before_;
};

}  // namespace stages
