#include "stages/stages.h"

#include <array>

namespace stages {

std::span<const runner::StageKind* const> all_kinds() {
  static const std::array kKinds = {
      // clang-format off
      &kDataCub200,
      &kDataFeatures,
      &kDataFlowers102,
      &kDataImageFolder,
      &kEvaluateClassification,
      &kMemoryPolicy,
      &kModelClipVision,
      &kModelCrossTransformer,
      &kModelFewShotTransformer,
      &kModelLinearProbe,
      &kModelLora,
      &kTrainSupervised,
      // clang-format on
  };
  return kKinds;
}

}  // namespace stages
