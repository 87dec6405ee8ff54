#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace stages {

/// Settings of LibTorch's caching allocator for GPUs. A nullopt keeps the value of the environment
/// or of LibTorch.
struct AllocatorSettings {
  std::optional<bool> expandable_segments;
  std::optional<std::int64_t> max_split_size_mb;
  std::optional<double> garbage_collection_threshold;
  std::optional<std::int64_t> roundup_power2_divisions;
  bool operator==(const AllocatorSettings&) const = default;
};

/// When the allocator's unused blocks are returned to the driver; 0: never. The triggers are
/// independent.
struct EmptyCacheEvery {
  std::int64_t micro_batches = 0, steps = 0, epochs = 0;
  bool operator==(const EmptyCacheEvery&) const = default;
};

/// "expandable_segments:True,max_split_size_mb:128", the syntax of LibTorch's environment
/// variables.
std::string to_text(const AllocatorSettings& settings);

/// LibTorch's current settings, read from it; nullopt for those at their default. Throws
/// runner::StageError if LibTorch cannot parse one of its environment variables.
AllocatorSettings allocator_settings_in_force();

/// One of the two environment variables that LibTorch reads: PYTORCH_ALLOC_CONF and
/// PYTORCH_CUDA_ALLOC_CONF.
struct AllocatorVariable {
  std::string name, value;
};
/// The ones that are set.
std::vector<AllocatorVariable> allocator_variables();

/// Applies `settings` to LibTorch's allocator and reads them back; existing blocks stay as they
/// are. Other threads must not use the allocator meanwhile. Returns a line for every setting that
/// contradicts the environment. Throws runner::StageError if other values are in force afterwards,
/// or for incompatible settings.
std::vector<std::string> apply_settings(const AllocatorSettings& settings);

}  // namespace stages
