#pragma once

#include <filesystem>
#include <string>

#include "stages/artifact/model.h"
#include "stages/model/convolutional_classifier.h"

namespace stages {

/// Writes a trained convolutional classifier into `folder`. The backbone is written for timm, as
/// config.json and model.safetensors. The head is written to head.safetensors, as a
/// torch.nn.Sequential, because timm's format only supports single layers. README.md has a program
/// that combines them. `network` belongs to `model`, the checkpoint's model. Throws
/// runner::StageError for any form other than "merged", and for a backbone that timm cannot create.
void export_convolutional(const std::filesystem::path& folder, const Checkpoint& checkpoint,
                          const ConvolutionalClassifier& model,
                          ConvolutionalClassifierNetwork& network, const std::string& what);

}  // namespace stages
