#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

namespace runner {

/// What can travel along an edge of the graph. Schemas name these in x-inputs and x-outputs.
enum class ArtifactType { kDataset, kModel, kMemoryPolicy, kCheckpoint, kPredictions, kMetrics };

/// "dataset", "model", "memory_policy", "checkpoint", "predictions", "metrics".
std::string_view name(ArtifactType type);
std::optional<ArtifactType> artifact_type(std::string_view name);

/// Bytes that an artifact keeps as long as it lives.
struct HeldMemory {
  std::int64_t on_device = 0;  ///< of the run's device
  std::int64_t on_host = 0;    ///< of the CPU's memory, which on a CPU is the device's
};

/// Whatever a stage hands to the next. Immutable once produced; freed when the last consumer has run.
class Artifact {
 public:
  virtual ~Artifact() = default;
  virtual ArtifactType type() const = 0;
  /// Of a stand-in, what the artifact that it stands for will keep.
  virtual HeldMemory held() const { return {}; }
};
using ArtifactPtr = std::shared_ptr<const Artifact>;

}  // namespace runner
