#pragma once

#include <span>

namespace runner {
struct StageKind;
}

namespace stages {

struct ImageSubject;
struct MadeDataset;
struct RequestKind;

/// Returns all stage kinds in this build, sorted by name. scripts/new-stage adds a line here and a
/// line in stages.cpp.
std::span<const runner::StageKind* const> all_kinds();

/// Returns all datasets that `retort data make` can create, sorted by name.
std::span<const MadeDataset> all_made_datasets();

/// Returns the subjects that a data kind can require its images to show.
std::span<const ImageSubject* const> all_image_subjects();

/// Returns all requests that a worker answers, other than the request to run a graph, sorted by
/// name.
std::span<const RequestKind> all_requests();

extern const runner::StageKind kDataCub200;
extern const runner::StageKind kDataFeatures;
extern const runner::StageKind kDataFewShot;
extern const runner::StageKind kDataFlowers102;
extern const runner::StageKind kDataFundus;
extern const runner::StageKind kDataImageFolder;
extern const runner::StageKind kDataImageTable;
extern const runner::StageKind kDataPython;
extern const runner::StageKind kDataStanfordCars;
extern const runner::StageKind kEvaluateClassification;
extern const runner::StageKind kEvaluateEpisodic;
extern const runner::StageKind kEvaluateGrading;
extern const runner::StageKind kEvaluateMultiLabel;
extern const runner::StageKind kEvaluatePairwiseEnsemble;
extern const runner::StageKind kEvaluatePrototypes;
extern const runner::StageKind kEvaluatePython;
extern const runner::StageKind kEvaluateRegression;
extern const runner::StageKind kEvaluateRetrieval;
extern const runner::StageKind kEvaluateZeroShot;
extern const runner::StageKind kMemoryPolicy;
extern const runner::StageKind kModelClip;
extern const runner::StageKind kModelClipVision;
extern const runner::StageKind kModelCnn;
extern const runner::StageKind kModelCrossTransformer;
extern const runner::StageKind kModelFewShotTransformer;
extern const runner::StageKind kModelFull;
extern const runner::StageKind kModelLinearProbe;
extern const runner::StageKind kModelLora;
extern const runner::StageKind kModelPython;
extern const runner::StageKind kModelSeResnext;
extern const runner::StageKind kTrainBinary;
extern const runner::StageKind kTrainContrastive;
extern const runner::StageKind kTrainEpisodic;
extern const runner::StageKind kTrainLogisticRegression;
extern const runner::StageKind kTrainMultiLabel;
extern const runner::StageKind kTrainNone;
extern const runner::StageKind kTrainPython;
extern const runner::StageKind kTrainRegression;
extern const runner::StageKind kTrainSoup;
extern const runner::StageKind kTrainSupervised;

}  // namespace stages
