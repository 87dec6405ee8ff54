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

/// The form of an export.
enum class ExportForm {
  kMerged,       ///< the whole network, in a library's format
  kAdapter,      ///< its adapters alone, in peft's format
  kTorchScript,  ///< the whole network as a program
};

/// Contents of an exported folder's README.
struct ExportReadme {
  std::string title;
  ExportForm form = ExportForm::kMerged;
  WeightLayout layout = WeightLayout::kClip;
  Feature feature = Feature::kPooled;
  bool gives_logits = false;  ///< the head is in the model; false: in head.safetensors
  std::size_t classes = 0;
  std::string base;                  ///< of an adapter: the model it was trained on
  std::vector<std::string> remarks;  ///< one sentence each
};

/// Contents of the README of an exported CLIP of two towers.
struct ClipReadme {
  std::string base =
      {};  ///< of an adapter: the model it was trained on; empty: the folder has the whole network
  bool has_head = false;  ///< in head.safetensors; false: classes are predicted by texts
  std::vector<std::string> remarks = {};  ///< one sentence each
};

/// Says where an adapter's base weights are, and what to do when the folder is moved.
std::string moved_base_remark();

std::string to_text(const ClipReadme& readme);

/// The README text: Markdown, with a Python program that loads the folder and predicts an image.
std::string to_text(const ExportReadme& readme);

/// Writes a trained convolutional classifier into `folder`. The backbone is written for timm, as
/// config.json and model.safetensors. The head is written to head.safetensors as a
/// torch.nn.Sequential, because timm only has a format for a single layer. README.md has the
/// program that assembles them. `network` belongs to `model`, which is the checkpoint's. Throws
/// runner::StageError for any form other than "merged", and for a backbone that timm cannot make.
void export_convolutional(const std::filesystem::path& folder, const Checkpoint& checkpoint,
                          const ConvolutionalClassifier& model,
                          ConvolutionalClassifierNetwork& network, const std::string& what);

}  // namespace stages
