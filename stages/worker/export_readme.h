#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "stages/artifact/model.h"
#include "stages/model/convolutional_classifier.h"
#include "stages/model/vision_tower.h"
#include "stages/model/weight_names.h"

namespace stages {

/// What an export is.
enum class ExportForm {
  kMerged,       ///< the whole network, as a library saves it
  kAdapter,      ///< its adapters alone, as peft saves them
  kTorchScript,  ///< the whole network as a program
};

/// What the README of an exported folder tells of it.
struct ExportReadme {
  std::string title;
  ExportForm form = ExportForm::kMerged;
  WeightLayout layout = WeightLayout::kClip;
  Feature feature = Feature::kPooled;
  bool gives_logits = false;  ///< the head is in the model, else in head.safetensors
  std::size_t classes = 0;
  std::string base;                  ///< of an adapter: what it was trained on
  std::vector<std::string> remarks;  ///< a sentence each
};

/// What the README of an exported CLIP of two towers tells of it.
struct ClipReadme {
  std::string base =
      {};  ///< of an adapter: what it was trained on; empty: the whole network is there
  bool has_head = false;  ///< in head.safetensors; else the classes are told apart by texts
  std::vector<std::string> remarks = {};  ///< a sentence each
};

/// Where the weights below an adapter are, and what to do when the folder is moved.
std::string moved_base_remark();

std::string to_text(const ClipReadme& readme);

/// The text: Markdown, with a Python program that loads what is in the folder and predicts an image
/// by it.
std::string to_text(const ExportReadme& readme);

/// Writes a trained convolutional classifier into `folder`: the backbone as timm loads it,
/// config.json and model.safetensors, and the head, which timm has no form for unless it is a
/// single layer, in head.safetensors as a torch.nn.Sequential; README.md has the program that puts
/// them together. `network` is of `model`, which is the checkpoint's. Throws runner::StageError for
/// what is not "merged", and for a backbone that timm cannot make.
void export_convolutional(const std::filesystem::path& folder, const Checkpoint& checkpoint,
                          const ConvolutionalClassifier& model,
                          ConvolutionalClassifierNetwork& network, const std::string& what);

}  // namespace stages
