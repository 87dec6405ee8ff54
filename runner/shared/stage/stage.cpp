#include "runner/shared/stage/stage.h"

#include <algorithm>
#include <array>

namespace runner {
namespace {

constexpr std::array<std::string_view, 6> kArtifactNames = {
    "dataset", "model", "memory_policy", "checkpoint", "predictions", "metrics"};

}  // namespace

std::string_view name(ArtifactType type) { return kArtifactNames[static_cast<std::size_t>(type)]; }

std::optional<ArtifactType> artifact_type(std::string_view name) {
  const auto found = std::ranges::find(kArtifactNames, name);
  if (found == kArtifactNames.end()) return std::nullopt;
  return static_cast<ArtifactType>(found - kArtifactNames.begin());
}

}  // namespace runner
