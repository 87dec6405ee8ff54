#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace runner {
class ConfigReader;
}

namespace stages {

/// What may be done once memory has run out: another way of computing the same, another GPU, the CPU, or to stop in a
/// state that can be resumed.
enum class OnOom { kReplan, kGpu, kCpu, kStop };

/// What a recipe says about memory that runs out while a stage is at work.
struct RecoveryOptions {
  /// How often one batch is run again on one device; nullopt: as long as there is another way.
  std::optional<std::int64_t> max_retries = 0;
  std::vector<OnOom> on_oom = {OnOom::kReplan, OnOom::kStop};  ///< in this order
  bool is_legacy = false;  ///< the batch itself is halved, as a published program does (legacy_retries.h)

  bool allows(OnOom what) const { return std::ranges::find(on_oom, what) != on_oom.end(); }
  /// May a batch that has been run again `retries` times on this device be once more?
  bool allows_retry(std::int64_t retries) const {
    return allows(OnOom::kReplan) && (!max_retries || retries < *max_retries);
  }
};

/// Reads max_retries, on_oom and on_oom_policy, as schemas/memory/policy.schema.json says them.
RecoveryOptions read_recovery_options(runner::ConfigReader& reader);

}  // namespace stages
