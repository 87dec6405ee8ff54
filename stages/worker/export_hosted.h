#pragma once

#include <filesystem>
#include <string>

#include "stages/artifact/model.h"
#include "stages/model/hosted_network.h"

namespace stages {

/// Writes a trained Python network into `folder`: its state dict as model.safetensors, with
/// adapters merged into the weights; the entry and arguments that create it as network.json; and
/// README.md with a program that loads the network. `network` belongs to `checkpoint` and is
/// modified. Throws runner::StageError for any form other than "merged".
void export_hosted(const std::filesystem::path& folder, const Checkpoint& checkpoint,
                   HostedNetwork& network, const std::string& what);

}  // namespace stages
