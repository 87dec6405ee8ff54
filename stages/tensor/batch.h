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

/// What one optimizer step sees, or a part of it: named tensors whose first dimension is rows.
///
/// A batch is a row of units. A unit is one sample, with one row in every tensor; or, for a batch
/// divided into groups, one group (an episode), which may own a different number of rows in each
/// tensor.
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
  /// Where its tensors are; a batch has one at least.
  at::Device device() const { return tensors_.begin()->second.device(); }
  bool grouped() const { return !offsets_.empty(); }
  const NamedTensors& tensors() const { return tensors_; }
  at::Tensor operator[](std::string_view name) const { return tensors_.at(name); }

  /// The first row of tensor `name` that is of units [begin, end), and the one after the last.
  std::pair<std::int64_t, std::int64_t> rows(const std::string& name, std::int64_t begin,
                                             std::int64_t end) const;
  /// Units [begin, end), as views of the same storage.
  Batch part(std::int64_t begin, std::int64_t end) const;
  /// The same batch with another tensor in place of one, which has as many rows.
  Batch with(std::string_view name, at::Tensor tensor) const;
  /// Moved to `device`; the same batch when it is there already.
  Batch to(at::Device device) const;

  /// Positions in the dataset, one per sample, for naming a sample in an error; empty when unknown.
  std::vector<std::int64_t> indices;

 private:
  NamedTensors tensors_;
  std::int64_t units_ = 0;
  std::map<std::string, std::vector<std::int64_t>> offsets_;
};

/// `tensor` on `device`. To a GPU it goes by way of pinned memory and the copy is queued after what
/// the GPU still has to do: from other memory the host would wait until all of that is done.
at::Tensor send_to(at::Device device, const at::Tensor& tensor);

}  // namespace stages
