#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include "stages/tensor/named_tensors.h"

namespace stages {

/// The input of one optimizer step, or a part of it: named tensors with rows as the first
/// dimension.
///
/// A batch is a sequence of units. A unit is one sample, with one row in every tensor. In a batch
/// divided into groups, a unit is one group (an episode), which may own a different number of rows
/// in each tensor.
class Batch {
 public:
  Batch() = default;
  /// A batch of samples: every tensor has `units` rows.
  Batch(NamedTensors tensors, std::int64_t units);
  /// A batch of groups: `offsets[name]` has units + 1 row numbers, ascending from 0. Group g owns
  /// the rows [offsets[g], offsets[g+1]).
  Batch(NamedTensors tensors, std::int64_t units,
        std::map<std::string, std::vector<std::int64_t>> offsets);

  std::int64_t units() const { return units_; }
  /// The device of the tensors. The batch must have at least one tensor.
  at::Device device() const { return tensors_.begin()->second.device(); }
  bool grouped() const { return !offsets_.empty(); }
  const NamedTensors& tensors() const { return tensors_; }
  at::Tensor operator[](std::string_view name) const { return tensors_.at(name); }

  /// Returns the first row of tensor `name` that belongs to units [begin, end), and the row after
  /// the last.
  std::pair<std::int64_t, std::int64_t> rows(const std::string& name, std::int64_t begin,
                                             std::int64_t end) const;
  /// Returns the units [begin, end) as views of the same storage.
  Batch part(std::int64_t begin, std::int64_t end) const;
  /// Returns this batch with one tensor replaced by another with the same number of rows.
  Batch with(std::string_view name, at::Tensor tensor) const;
  /// Returns the batch on `device`; the tensors are shared if they are already there.
  Batch to(at::Device device) const;

  /// Dataset indices, one per sample, for naming a sample in an error; empty if unknown.
  std::vector<std::int64_t> indices;

 private:
  NamedTensors tensors_;
  std::int64_t units_ = 0;
  std::map<std::string, std::vector<std::int64_t>> offsets_;
};

/// Returns `tensor` on `device`. A copy to a GPU goes through pinned memory and is queued behind
/// the GPU's pending work. With pageable memory, the host would have to wait for that work to
/// finish.
at::Tensor send_to(at::Device device, const at::Tensor& tensor);

}  // namespace stages
