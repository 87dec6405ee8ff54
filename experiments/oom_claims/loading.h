#pragma once

#include <cstdint>

namespace oom_claims {

/// The memory used for reading a dataset.
struct Reading {
  std::int64_t device_blocks = 0;  ///< blocks allocated on the device
  std::int64_t host_bytes = 0;     ///< of one batch
};

/// Reads 8 batches of 16 images in advance.
Reading read_ahead(std::int64_t workers, std::int64_t prefetch);

}  // namespace oom_claims
