#pragma once

#include <filesystem>
#include <string>

#include "stages/artifact/checkpoint.h"
#include "stages/model/convolutional_classifier.h"

namespace stages {

/// Writes a trained convolutional classifier into `folder`: the backbone as timm loads it, config.json and
/// model.safetensors, and the head, which timm has no form for unless it is a single layer, in head.safetensors as a
/// torch.nn.Sequential; README.md has the program that puts them together. `network` is of `model`, which is the
/// checkpoint's. Throws runner::StageError for what is not "merged", and for a backbone that timm cannot make.
void export_convolutional(const std::filesystem::path& folder, const Checkpoint& checkpoint,
                          const ConvolutionalClassifier& model, ConvolutionalClassifierNetwork& network,
                          const std::string& what);

}  // namespace stages
