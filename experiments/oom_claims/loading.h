#pragma once

#include <cstdint>

namespace oom_claims {

/// What reading a dataset takes.
struct Reading {
  std::int64_t device_blocks = 0;  ///< on the device
  std::int64_t host_bytes = 0;     ///< of one batch
};

/// Reads 8 batches of 16 images ahead of a training.
Reading read_ahead(std::int64_t workers, std::int64_t prefetch);

}  // namespace oom_claims
