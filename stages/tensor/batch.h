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

/// The input of one optimizer step, or a part of it: named tensors whose first dimension is rows.
///
/// A batch is a sequence of units. A unit is one sample, with one row in every tensor. In a batch
/// divided into groups, a unit is one group (an episode), which may own a different number of rows
/// in each tensor.
class Batch {
 public:
  Batch() = default;
  /// `units` samples: every tensor has that many rows.
  Batch(NamedTensors tensors, std::int64_t units);
  /// Groups: `offsets[name]` has units + 1 row numbers, ascending from 0; group g owns rows
  /// [offsets[g], offsets[g+1]).
  Batch(NamedTensors tensors, std::int64_t units,
        std::map<std::string, std::vector<std::int64_t>> offsets);

  std::int64_t units() const { return units_; }
  /// The device of its tensors. A batch has at least one tensor.
  at::Device device() const { return tensors_.begin()->second.device(); }
  bool grouped() const { return !offsets_.empty(); }
  const NamedTensors& tensors() const { return tensors_; }
  at::Tensor operator[](std::string_view name) const { return tensors_.at(name); }

  /// The first row of tensor `name` that belongs to units [begin, end), and the one after the last.
  std::pair<std::int64_t, std::int64_t> rows(const std::string& name, std::int64_t begin,
                                             std::int64_t end) const;
  /// Units [begin, end), as views of the same storage.
  Batch part(std::int64_t begin, std::int64_t end) const;
  /// The same batch with one tensor replaced by another that has as many rows.
  Batch with(std::string_view name, at::Tensor tensor) const;
  /// The batch moved to `device`; the same batch if it is already there.
  Batch to(at::Device device) const;

  /// Positions in the dataset, one per sample, for naming a sample in an error; empty when unknown.
  std::vector<std::int64_t> indices;

 private:
  NamedTensors tensors_;
  std::int64_t units_ = 0;
  std::map<std::string, std::vector<std::int64_t>> offsets_;
};

/// `tensor` on `device`. A copy to a GPU goes through pinned memory and is queued after the GPU's
/// pending work: from pageable memory the host would wait until all of that is done.
at::Tensor send_to(at::Device device, const at::Tensor& tensor);

}  // namespace stages
