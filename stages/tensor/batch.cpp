#include "stages/tensor/batch.h"

#include <stdexcept>

#include <torch/types.h>

namespace stages {

Batch::Batch(NamedTensors tensors, std::int64_t units)
    : tensors_(std::move(tensors)), units_(units) {
  for (const auto& [name, tensor] : tensors_) {
    if (tensor.size(0) != units)
      throw std::invalid_argument("batch: '" + name + "' has a different number of rows");
  }
}

Batch::Batch(NamedTensors tensors, std::int64_t units,
             std::map<std::string, std::vector<std::int64_t>> offsets)
    : tensors_(std::move(tensors)), units_(units), offsets_(std::move(offsets)) {
  for (const auto& [name, tensor] : tensors_) {
    const auto rows = offsets_.find(name);
    if (rows == offsets_.end() || static_cast<std::int64_t>(rows->second.size()) != units + 1 ||
        rows->second.back() != tensor.size(0)) {
      throw std::invalid_argument("batch: the groups of '" + name + "' do not cover its rows");
    }
  }
}

std::pair<std::int64_t, std::int64_t> Batch::rows(const std::string& name, std::int64_t begin,
                                                  std::int64_t end) const {
  if (!grouped()) return {begin, end};
  const auto& offsets = offsets_.at(name);
  return {offsets[begin], offsets[end]};
}

Batch Batch::part(std::int64_t begin, std::int64_t end) const {
  Batch result;
  result.units_ = end - begin;
  for (const auto& [name, tensor] : tensors_) {
    const auto [first, end_row] = rows(name, begin, end);
    result.tensors_.set(name, tensor.slice(0, first, end_row));
    if (!grouped()) continue;
    auto& own = result.offsets_[name];
    for (auto group = begin; group <= end; ++group)
      own.push_back(rows(name, group, group).first - first);
  }
  if (!grouped() && !indices.empty())
    result.indices.assign(indices.begin() + begin, indices.begin() + end);
  return result;
}

Batch Batch::with(std::string_view name, at::Tensor tensor) const {
  if (tensor.size(0) != tensors_.at(name).size(0))
    throw std::invalid_argument("batch: different number of rows");
  Batch result = *this;
  result.tensors_.set(name, std::move(tensor));
  return result;
}

Batch Batch::to(at::Device device) const {
  Batch result = *this;
  for (const auto& [name, tensor] : tensors_) result.tensors_.set(name, send_to(device, tensor));
  return result;
}

at::Tensor send_to(at::Device device, const at::Tensor& tensor) {
  if (!device.is_cuda() || !tensor.is_cpu()) return tensor.to(device);
  return (tensor.is_pinned() ? tensor : tensor.pin_memory()).to(device, /*non_blocking=*/true);
}

}  // namespace stages
