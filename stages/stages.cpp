#include "stages/stages.h"

#include <array>

namespace stages {

std::span<const runner::StageKind* const> all_kinds() {
  static const std::array kKinds = {
      &kDataImageFolder,  //
      &kEvaluateClassification, &kMemoryPolicy, &kModelClipVision, &kTrainSupervised,
  };
  return kKinds;
}

}  // namespace stages
