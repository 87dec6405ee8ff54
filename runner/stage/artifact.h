#pragma once

#include <memory>
#include <optional>
#include <string_view>

namespace runner {

/// What can travel along an edge of the graph. Schemas name these in x-inputs and x-outputs.
enum class ArtifactType { kDataset, kModel, kMemoryPolicy, kCheckpoint, kPredictions, kMetrics };

/// "dataset", "model", "memory_policy", "checkpoint", "predictions", "metrics".
std::string_view name(ArtifactType type);
std::optional<ArtifactType> artifact_type(std::string_view name);

/// Whatever a stage hands to the next. Immutable once produced; freed when the last consumer has run.
class Artifact {
 public:
  virtual ~Artifact() = default;
  virtual ArtifactType type() const = 0;
};
using ArtifactPtr = std::shared_ptr<const Artifact>;

}  // namespace runner
