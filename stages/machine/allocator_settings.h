#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace stages {

/// How LibTorch's caching allocator of GPUs divides memory. What is nullopt is left as the
/// environment or LibTorch has it.
struct AllocatorSettings {
  std::optional<bool> expandable_segments;
  std::optional<std::int64_t> max_split_size_mb;
  std::optional<double> garbage_collection_threshold;
  std::optional<std::int64_t> roundup_power2_divisions;
  bool operator==(const AllocatorSettings&) const = default;
};

/// When the allocator's unused blocks are given back to the driver; 0: never. Each counts for
/// itself.
struct EmptyCacheEvery {
  std::int64_t micro_batches = 0, steps = 0, epochs = 0;
  bool operator==(const EmptyCacheEvery&) const = default;
};

/// "expandable_segments:True,max_split_size_mb:128", as LibTorch and its environment variables
/// write it.
std::string to_text(const AllocatorSettings& settings);

/// What LibTorch will do, read from it; where it does what it does by default, nullopt. Throws
/// runner::StageError where it does not understand one of its environment variables.
AllocatorSettings allocator_settings_in_force();

/// One of the two environment variables, PYTORCH_ALLOC_CONF and PYTORCH_CUDA_ALLOC_CONF, that
/// LibTorch reads.
struct AllocatorVariable {
  std::string name, value;
};
/// Those that are set.
std::vector<AllocatorVariable> allocator_variables();

/// Makes LibTorch's allocator do as `settings` say and reads it back; blocks that it has already
/// stay as they are. Other threads must not use it meanwhile. Returns a line for every setting in
/// which the environment says otherwise. Throws runner::StageError where something else is in force
/// afterwards, or what cannot be together.
std::vector<std::string> apply_settings(const AllocatorSettings& settings);

}  // namespace stages
