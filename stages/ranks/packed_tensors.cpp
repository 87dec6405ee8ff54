#include "stages/ranks/packed_tensors.h"

#include <algorithm>

#include <torch/types.h>

namespace stages {

PackedTensors::PackedTensors(const std::vector<at::Tensor>& tensors) {
  for (const at::Tensor& tensor : tensors) {
    auto run = std::ranges::find(runs_, tensor.scalar_type(), &Run::type);
    if (run == runs_.end()) run = runs_.insert(run, {tensor.scalar_type()});
    run->tensors.push_back(tensor);
    run->numbers += tensor.numel();
  }
  constexpr std::int64_t kAlignment = 16;
  for (Run& run : runs_) {
    run.begin = bytes_;
    const auto size = run.numbers * static_cast<std::int64_t>(c10::elementSize(run.type));
    bytes_ += (size + kAlignment - 1) / kAlignment * kAlignment;
  }
}

at::Tensor PackedTensors::numbers_of(const Run& run, std::uint8_t* copy) {
  return at::from_blob(copy + run.begin, {run.numbers}, run.type);
}

namespace {

/// Calls `move` with each tensor and its place among the numbers of `flat`.
template <typename Move>
void with_each(const std::vector<at::Tensor>& tensors, const at::Tensor& flat, Move move) {
  std::int64_t begin = 0;
  for (const at::Tensor& tensor : tensors) {
    move(tensor, flat.narrow(0, begin, tensor.numel()).view(tensor.sizes()));
    begin += tensor.numel();
  }
}

}  // namespace

void PackedTensors::pack(std::uint8_t* place) const {
  const torch::NoGradGuard no_graph;
  for (const Run& run : runs_) {
    with_each(run.tensors, numbers_of(run, place),
              [](const at::Tensor& tensor, const at::Tensor& copy) { copy.copy_(tensor); });
  }
}

void PackedTensors::set_to_sum(const std::vector<std::uint8_t*>& copies) const {
  const torch::NoGradGuard no_graph;
  for (const Run& run : runs_) {
    const at::Tensor sum = numbers_of(run, copies.front());
    for (std::size_t i = 1; i < copies.size(); ++i) sum.add_(numbers_of(run, copies[i]));
    with_each(run.tensors, sum,
              [](const at::Tensor& tensor, const at::Tensor& copy) { tensor.copy_(copy); });
  }
}

}  // namespace stages
