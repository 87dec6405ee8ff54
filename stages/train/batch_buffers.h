#pragma once

#include <array>
#include <cstddef>
#include <memory>

#include "stages/tensor/batch.h"
#include "stages/tensor/named_tensors.h"

namespace stages {

/// Two buffers on a GPU for the batches of a training run. While a step computes with the batch in
/// one of them, the next batch is copied to the other one, on a stream of its own:
///
///   BatchBuffers buffers(largest, gpu);
///   compute(buffers.fill(first));
///   compute(buffers.fill(second));  // the copy does not wait for compute(first)
///   compute(buffers.fill(third));   // the copy waits for compute(first), and the GPU alone waits
///
/// A filled batch keeps its values until the second fill() after it. The memory is allocated once,
/// so how much is reserved does not depend on when a copy ends.
class BatchBuffers {
 public:
  /// `largest` has the names and types of all tensors of a batch, and is at least as large as any
  /// batch. `device` is a GPU, or Meta in a dry run, in which nothing is copied.
  BatchBuffers(const Batch& largest, at::Device device);
  ~BatchBuffers();
  BatchBuffers(const BatchBuffers&) = delete;
  BatchBuffers& operator=(const BatchBuffers&) = delete;

  /// Returns the batch, which is on the host, on the device. Its copy runs before the work that the
  /// caller queues next, and after the work that was queued before the previous fill(). A tensor
  /// that does not fit, or that is needed while older values of its buffer are still in use, is
  /// copied to new memory instead.
  Batch fill(const Batch& batch);

  /// Allocates the buffers. fill() does so if needed.
  void allocate();
  /// The tensors of both buffers; empty before they are allocated.
  const std::array<NamedTensors, 2>& buffers() const { return buffers_; }

 private:
  class CopyStream;

  NamedTensors largest_;  // on the Meta device
  at::Device device_;
  std::array<NamedTensors, 2> buffers_;
  std::size_t current_ = 0;             // the buffer that was filled last
  std::unique_ptr<CopyStream> stream_;  // null before the first allocation, and in a dry run
};

}  // namespace stages
