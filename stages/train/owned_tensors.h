#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "stages/tensor/named_tensors.h"

namespace torch::nn {
class Module;
}

namespace stages {

/// A tensor that a training keeps from step to step, and what it is to it.
struct OwnedTensor {
  std::string owner;  ///< "parameter", "gradient", "optimizer_state" or "buffer"
  std::string name;
  at::Tensor tensor;
};

/// What `network` and its optimizer hold now. Tensors that share their memory are given once.
std::vector<OwnedTensor> owned_tensors(const torch::nn::Module& network, const NamedTensors& optimizer_state);

/// The owners in the order in which they are told; "other" is all that nobody of them owns.
inline constexpr const char* kOwners[] = {"parameter", "gradient", "optimizer_state", "buffer", "other"};

/// Bytes of what is live, by kOwners. `live`: bytes in all.
std::vector<std::int64_t> bytes_by_owner(const std::vector<OwnedTensor>& owned, std::int64_t live);

}  // namespace stages
