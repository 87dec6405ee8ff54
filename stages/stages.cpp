#include "stages/stages.h"

#include <array>
#include <vector>

#include "stages/adapters/made_datasets.h"
#include "stages/contrastive/data_stanford_cars.h"
#include "stages/data/image_folder.h"
#include "stages/few_shot/make_mini_imagenet.h"
#include "stages/retina/predict_ensemble.h"
#include "stages/retina/retina.h"
#include "stages/worker/check_data.h"
#include "stages/worker/embed.h"
#include "stages/worker/export.h"
#include "stages/worker/memory_checks.h"
#include "stages/worker/network_pixels.h"
#include "stages/worker/predict.h"
#include "stages/worker/rank_speed.h"
#include "stages/worker/requests.h"

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
      &kDataPython,
      &kDataStanfordCars,
      &kEvaluateClassification,
      &kEvaluateEpisodic,
      &kEvaluateGrading,
      &kEvaluateMultiLabel,
      &kEvaluatePairwiseEnsemble,
      &kEvaluatePrototypes,
      &kEvaluatePython,
      &kEvaluateRegression,
      &kEvaluateRetrieval,
      &kEvaluateZeroShot,
      &kMemoryPolicy,
      &kModelClip,
      &kModelClipVision,
      &kModelCnn,
      &kModelCrossTransformer,
      &kModelFewShotTransformer,
      &kModelFull,
      &kModelLinearProbe,
      &kModelLora,
      &kModelPython,
      &kModelSeResnext,
      &kTrainBinary,
      &kTrainContrastive,
      &kTrainEpisodic,
      &kTrainLogisticRegression,
      &kTrainMultiLabel,
      &kTrainNone,
      &kTrainPython,
      &kTrainRegression,
      &kTrainSoup,
      &kTrainSupervised,
      // clang-format on
  };
  return kKinds;
}

std::span<const MadeDataset> all_made_datasets() {
  static constexpr std::array kDatasets = {
      // clang-format off
      MadeDataset{"aptos_2019", make_aptos_2019},
      MadeDataset{"cub200", make_cub200},
      MadeDataset{"eyepacs_2015", make_eyepacs_2015},
      MadeDataset{"flowers102", make_flowers102},
      MadeDataset{"fundus_folders", make_fundus_folders},
      MadeDataset{"image_folder", make_image_folder},
      MadeDataset{"mini_imagenet", make_mini_imagenet},
      MadeDataset{"stanford_cars", make_stanford_cars},
      // clang-format on
  };
  return kDatasets;
}

std::span<const ImageSubject* const> all_image_subjects() {
  static const std::vector<const ImageSubject*> kSubjects = {
      // clang-format off
      &stages::kRetina,
      // clang-format on
  };
  return kSubjects;
}

std::span<const RequestKind> all_requests() {
  static constexpr std::array kRequests = {
      RequestKind{"check_data", answer_check_data},
      RequestKind{"check_memory", answer_check_memory},
      RequestKind{"check_ranks", answer_check_ranks},
      RequestKind{"export", answer_export},
      RequestKind{"fetch_data", answer_fetch_data},
      RequestKind{"fetch_model", answer_fetch_model},
      RequestKind{"make_data", answer_make_data},
      RequestKind{"network_pixels", answer_network_pixels},
      RequestKind{"predict", answer_predict},
      RequestKind{"predict_ensemble", answer_predict_ensemble},
      RequestKind{"embed", answer_embed},
      RequestKind{"versions", answer_versions},
  };
  return kRequests;
}

}  // namespace stages
