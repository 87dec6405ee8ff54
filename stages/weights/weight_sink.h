#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include <ATen/core/Tensor.h>

namespace stages {

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
