#include "stages/stages.h"

#include <array>

namespace stages {

std::span<const runner::StageKind* const> all_kinds() {
  static const std::array kKinds = {
      // clang-format off
      &kDataCub200,
      &kDataFeatures,
      &kDataFewShot,
      &kDataFlowers102,
      &kDataFundus,
      &kDataImageFolder,
      &kDataImageTable,
      &kDataStanfordCars,
      &kEvaluateClassification,
      &kEvaluateEpisodic,
      &kEvaluateGrading,
      &kEvaluatePairwiseEnsemble,
      &kEvaluateRetrieval,
      &kEvaluateZeroShot,
      &kMemoryPolicy,
      &kModelClip,
      &kModelClipVision,
      &kModelCnn,
      &kModelCrossTransformer,
      &kModelFewShotTransformer,
      &kModelLinearProbe,
      &kModelLora,
      &kModelSeResnext,
      &kTrainBinary,
      &kTrainContrastive,
      &kTrainEpisodic,
      &kTrainSupervised,
      // clang-format on
  };
  return kKinds;
}

}  // namespace stages
