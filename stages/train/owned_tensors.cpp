#include "stages/train/owned_tensors.h"

#include <algorithm>
#include <iterator>
#include <set>

#include <torch/torch.h>

namespace stages {

std::vector<OwnedTensor> owned_tensors(const torch::nn::Module& network, const NamedTensors& optimizer_state) {
  std::vector<OwnedTensor> owned;
  std::set<const void*> known;
  const auto add = [&](const char* owner, const std::string& name, const at::Tensor& tensor) {
    if (!tensor.defined() || !tensor.has_storage()) return;
    if (known.insert(tensor.storage().unsafeGetStorageImpl()).second) owned.push_back({owner, name, tensor});
  };
  const auto parameters = network.named_parameters();
  for (const auto& one : parameters) add("parameter", one.key(), one.value());
  for (const auto& one : network.named_buffers()) add("buffer", one.key(), one.value());
  for (const auto& one : parameters) add("gradient", one.key(), one.value().grad());
  for (const auto& [name, tensor] : optimizer_state) add("optimizer_state", name, tensor);
  return owned;
}

std::vector<std::int64_t> bytes_by_owner(const std::vector<OwnedTensor>& owned, std::int64_t live) {
  std::vector<std::int64_t> bytes(std::size(kOwners), 0);
  for (const OwnedTensor& one : owned) {
    const auto size = static_cast<std::int64_t>(one.tensor.storage().nbytes());
    bytes[std::ranges::find(kOwners, one.owner) - kOwners] += size;
    live -= size;
  }
  bytes.back() = std::max<std::int64_t>(live, 0);
  return bytes;
}

}  // namespace stages
