#pragma once

#include <filesystem>
#include <string>

#include "stages/artifact/model.h"
#include "stages/model/hosted_network.h"

namespace stages {

/// Writes a trained network of Python into `folder`: its state dict, with adapters merged into the
/// weights, as model.safetensors; network.json with the entry and arguments that make it; and
/// README.md with the program that loads it. `network` is the checkpoint's, and is modified. Throws
/// runner::StageError for any form other than "merged".
void export_hosted(const std::filesystem::path& folder, const Checkpoint& checkpoint,
                   HostedNetwork& network, const std::string& what);

}  // namespace stages
