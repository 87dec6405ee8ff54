#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "stages/artifact/fitted_decision.h"
#include "stages/artifact/model.h"
#include "stages/model/convolutional_classifier.h"
#include "stages/model/vision_tower.h"
#include "stages/model/weight_names.h"

namespace stages {

/// The format of an export.
enum class ExportForm {
  kMerged,       ///< the whole network, in a library's format
  kAdapter,      ///< only the adapters, in peft's format
  kTorchScript,  ///< the whole network as a program
};

/// What the outputs of a network mean.
enum class Answer {
  kClass,    ///< one of the classes
  kLabels,   ///< any number of the classes
  kNumbers,  ///< a number for each target
};
Answer answer_of(const Checkpoint& checkpoint);

/// Returns the name of each output: the class, or "above A" for an output of an ordinal head that
/// is the logit of a class above A.
std::vector<std::string> output_names(const Checkpoint& checkpoint);

/// The contents of the README in an exported folder.
struct ExportReadme {
  std::string title;
  ExportForm form = ExportForm::kMerged;
  WeightLayout layout = WeightLayout::kClip;
  Feature feature = Feature::kPooled;
  bool gives_logits = false;  ///< true if the head is in the model; false if in head.safetensors
  std::size_t outputs = 0;    ///< number of logits
  Answer answer = Answer::kClass;
  FittedDecision decision = {};      ///< how logits become probabilities and a class
  std::string base;                  ///< for an adapter: the model it was trained on
  std::vector<std::string> remarks;  ///< one sentence each
};

/// The contents of the README for an exported CLIP model with two towers.
struct ClipReadme {
  std::string base =
      {};  ///< for an adapter: the model it was trained on; empty for a whole network
  FittedDecision decision = {};  ///< of the head
  bool has_head = false;         ///< true if head.safetensors exists; false to predict from texts
  std::vector<std::string> remarks = {};  ///< one sentence each
};

/// Writes into `folder` what the outputs mean, unless they are class logits: thresholds.json, with
/// the probability at or above which each label is predicted, or targets.json, with the "scale"
/// that multiplies each output and the "offset" that is then added.
void write_answer(const std::filesystem::path& folder, const Checkpoint& checkpoint);

/// Returns a sentence about each number that a decision was fitted with.
std::vector<std::string> remarks_on(const FittedDecision& decision);

/// Returns a sentence about where an adapter's base weights are and what to do if the folder is
/// moved.
std::string moved_base_remark();

std::string to_text(const ClipReadme& readme);

/// Returns the README: Markdown with a Python program that loads the folder and makes a prediction
/// for an image.
std::string to_text(const ExportReadme& readme);

/// Writes a trained convolutional classifier into `folder`. The backbone is written for timm, as
/// config.json and model.safetensors. The head is written to head.safetensors, as a
/// torch.nn.Sequential, because timm's format only supports single layers. README.md contains a
/// program that combines them. `network` belongs to `model`, the checkpoint's model. Throws
/// runner::StageError for any form other than "merged", and for a backbone that timm cannot create.
void export_convolutional(const std::filesystem::path& folder, const Checkpoint& checkpoint,
                          const ConvolutionalClassifier& model,
                          ConvolutionalClassifierNetwork& network, const std::string& what);

}  // namespace stages
