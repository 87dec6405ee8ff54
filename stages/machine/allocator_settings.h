#pragma once

#include <cstdint>
#include <optional>

namespace stages {

/// How LibTorch's caching allocator of GPUs divides memory. What is nullopt is left as the environment or LibTorch
/// has it.
struct AllocatorSettings {
  std::optional<bool> expandable_segments;
  std::optional<std::int64_t> max_split_size_mb;
  std::optional<double> garbage_collection_threshold;
  std::optional<std::int64_t> roundup_power2_divisions;
  bool operator==(const AllocatorSettings&) const = default;
};

/// When the allocator's unused blocks are given back to the driver; 0: never. Each counts for itself.
struct EmptyCacheEvery {
  std::int64_t micro_batches = 0, steps = 0, epochs = 0;
  bool operator==(const EmptyCacheEvery&) const = default;
};

}  // namespace stages
