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

/// A network with a base: fixed weights that are never trained. Code that rebuilds the network
/// already has the base, so checkpoints do not store it.
class OnFrozenBase {
 public:
  virtual ~OnFrozenBase() = default;
  virtual bool is_base(std::string_view weight) const = 0;
  /// Returns a string that identifies the base: equal strings mean equal weights.
  virtual const std::string& base() const = 0;
};

/// A network that is trained from given weights, such as those of a pretrained tower. A part that
/// was trained on the same weights while they were frozen, such as a linear probe's head, fits it.
class FromOrigin {
 public:
  virtual ~FromOrigin() = default;
  /// True if the network starts from this weight as given.
  virtual bool is_of_origin(std::string_view weight) const = 0;
  /// Returns a string that identifies the given weights, equal to OnFrozenBase::base() of a network
  /// with the same weights frozen; empty if the network is an outline.
  virtual const std::string& origin() const = 0;
};

/// Returns the string that identifies a network's base; empty if it has none.
std::string base_of(const torch::nn::Module& network);

/// Returns every parameter and buffer of a network except its base, by dotted name. These are the
/// network's own tensors, not copies.
NamedTensors weights(const torch::nn::Module& network);

/// Returns the weights() that have memory: if parameters are sharded, those of this rank.
NamedTensors weights_with_memory(const torch::nn::Module& network);

/// Returns the trainable parameters, which are those that require gradients.
NamedTensors trained_parameters(const torch::nn::Module& network);

/// Throws std::invalid_argument with the first mismatch if `values` do not have exactly the names
/// and shapes of `own`.
void check_weights(const NamedTensors& own, const NamedTensors& values);

/// Copies `values` to the weights with the same names, across devices; weights without memory stay
/// without it. Names and shapes must match the network's exactly. Otherwise throws
/// std::invalid_argument with the first mismatch, before anything is copied.
void set_weights(torch::nn::Module& network, const NamedTensors& values);

/// Throws runner::StageError if `saved` contains integers but `weight` contains floating-point
/// numbers, as in a quantized model with an unknown scale.
void refuse_integers(const std::string& name, const at::Tensor& saved, const at::Tensor& weight);

/// A contiguous piece of a tensor, in file order.
struct WeightPiece {
  std::string tensor;      ///< name of the tensor
  std::int64_t begin = 0;  ///< index of the first element within the tensor
  at::Tensor numbers;  ///< (n) on the CPU, in the file's type; valid only until the call returns
};

/// Receives the tensors of a file piece by piece, so only one piece at a time is in memory:
///
///   read_safetensors(path, {.wants = [&](const auto& name) { return names.contains(name); },
///                           .take = [&](const WeightPiece& piece) { put(piece); }});
///
/// The pieces of a tensor arrive in order, without gaps, and before those of the next tensor.
struct WeightSink {
  std::function<bool(const std::string& name)> wants;  ///< skips other tensors
  std::function<void(const WeightPiece& piece)> take;
};

}  // namespace stages
