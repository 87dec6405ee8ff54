#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace stages {

/// Settings of LibTorch's caching allocator for GPUs. nullopt keeps the value from the environment,
/// or LibTorch's default.
struct AllocatorSettings {
  std::optional<bool> expandable_segments;
  std::optional<std::int64_t> max_split_size_mb;
  std::optional<double> garbage_collection_threshold;
  std::optional<std::int64_t> roundup_power2_divisions;
  bool operator==(const AllocatorSettings&) const = default;
};

/// How often to return the allocator's unused blocks to the driver; 0: never. The triggers are
/// independent.
struct EmptyCacheEvery {
  std::int64_t micro_batches = 0, steps = 0, epochs = 0;
  bool operator==(const EmptyCacheEvery&) const = default;
};

/// Returns the settings in the syntax of LibTorch's environment variables:
/// "expandable_segments:True,max_split_size_mb:128".
std::string to_text(const AllocatorSettings& settings);

/// Returns LibTorch's current settings; nullopt for those at their defaults. Throws
/// runner::StageError if LibTorch cannot parse one of its environment variables.
AllocatorSettings allocator_settings_in_force();

/// An environment variable that LibTorch reads: PYTORCH_ALLOC_CONF or PYTORCH_CUDA_ALLOC_CONF.
struct AllocatorVariable {
  std::string name, value;
};
/// Returns the variables that are set and not empty.
std::vector<AllocatorVariable> allocator_variables();

/// Applies `settings` to LibTorch's allocator and reads them back; existing blocks are not
/// affected. No other thread may use the allocator during the call. Returns a line for each setting
/// that overrides a different value in the environment. Throws runner::StageError for incompatible
/// settings, or if LibTorch does not adopt them.
std::vector<std::string> apply_settings(const AllocatorSettings& settings);

}  // namespace stages
