#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include <ATen/core/Tensor.h>

#include "stages/tensor/named_tensors.h"

namespace torch::nn {
class Module;
}

namespace stages {

/// A network with a base: given weights that are never trained. Code that rebuilds the network
/// already has the base, so checkpoints do not save it.
class OnFrozenBase {
 public:
  virtual ~OnFrozenBase() = default;
  virtual bool is_base(std::string_view weight) const = 0;
  /// Identifies the base: equal texts mean equal weights.
  virtual const std::string& base() const = 0;
};

/// The base of a network; empty: it has none.
std::string base_of(const torch::nn::Module& network);

/// Every parameter and buffer of a network by its dotted name, as the tensors that it computes with
/// (not copies), without its base.
NamedTensors weights(const torch::nn::Module& network);

/// The trainable parameters: those that require a gradient.
NamedTensors trained_parameters(const torch::nn::Module& network);

/// Copies `values` into the weights of the same names, across devices. Names and shapes must match
/// the network's exactly; otherwise throws std::invalid_argument naming the first mismatch, before
/// anything is copied.
void set_weights(torch::nn::Module& network, const NamedTensors& values);

/// Throws runner::StageError if `saved` has integers and `weight` floating-point numbers: those of
/// a quantised model, whose scale is unknown.
void refuse_integers(const std::string& name, const at::Tensor& saved, const at::Tensor& weight);

/// A contiguous piece of a tensor, in file order.
struct WeightPiece {
  std::string tensor;      ///< its name
  std::int64_t begin = 0;  ///< index of its first element within the tensor
  at::Tensor numbers;  ///< (n) on the CPU, of the file's type; valid only until the call returns
};

/// Receives the tensors of a file piece by piece, so that only one piece is in memory:
///
///   read_safetensors(path, {.wants = [&](const std::string& name) { return names.contains(name);
///   },
///                           .take = [&](const WeightPiece& piece) { put(piece); }});
///
/// The pieces of a tensor come in order, one after the other, and completely.
struct WeightSink {
  std::function<bool(const std::string& name)> wants;  ///< the other tensors are skipped
  std::function<void(const WeightPiece& piece)> take;
};

}  // namespace stages
