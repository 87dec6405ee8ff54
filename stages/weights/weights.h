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

/// A network part of whose weights is given and never trained: whoever makes the network again has
/// them, so that they are no part of what a training saves.
class OnFrozenBase {
 public:
  virtual ~OnFrozenBase() = default;
  virtual bool is_base(std::string_view weight) const = 0;
  /// What the base is, such that the same text means the same weights.
  virtual const std::string& base() const = 0;
};

/// The base of a network; empty: it has none.
std::string base_of(const torch::nn::Module& network);

/// Every parameter and buffer of a network by its dotted name, as the very tensors it computes
/// with; without its base.
NamedTensors weights(const torch::nn::Module& network);

/// The parameters that are trained: those that ask for a gradient.
NamedTensors trained_parameters(const torch::nn::Module& network);

/// Copies `values` into the weights of the same names, across devices. Names and shapes must be
/// exactly the network's; throws std::invalid_argument naming the first that is not, before
/// anything is copied.
void set_weights(torch::nn::Module& network, const NamedTensors& values);

/// Throws runner::StageError where `saved` holds integers and `weight` fractions: those of a
/// quantised model, of which nothing says what one of them is worth.
void refuse_integers(const std::string& name, const at::Tensor& saved, const at::Tensor& weight);

/// Some numbers of a tensor, as they lie in a file one after another.
struct WeightPiece {
  std::string tensor;      ///< its name
  std::int64_t begin = 0;  ///< the place of the first of them among all of the tensor's
  at::Tensor
      numbers;  ///< (n) on the CPU, of the file's type; as they are only until the call returns
};

/// Takes the tensors of a file piece by piece, so that no more than a piece of them is in memory:
///
///   read_safetensors(path, {.wants = [&](const std::string& name) { return names.contains(name);
///   },
///                           .take = [&](const WeightPiece& piece) { put(piece); }});
///
/// The pieces of a tensor come in order, one after the other and all of them.
struct WeightSink {
  std::function<bool(const std::string& name)> wants;  ///< the others are passed over
  std::function<void(const WeightPiece& piece)> take;
};

}  // namespace stages
