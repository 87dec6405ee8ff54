#pragma once

#include <filesystem>
#include <string>

#include "stages/artifact/model.h"
#include "stages/model/hosted_network.h"

namespace stages {

/// Writes a trained Python network into `folder`, with the entry and arguments that create it as
/// network.json, and README.md with a program that loads it. "merged": the state dict as
/// model.safetensors, with adapters merged into the weights; "adapter": the adapters in peft's
/// format, and the state dict without them as base/model.safetensors. `network` belongs to
/// `checkpoint` and is modified. Throws runner::StageError for any other form, and for "adapter" if
/// the network has no adapters.
void export_hosted(const std::filesystem::path& folder, const Checkpoint& checkpoint,
                   HostedNetwork& network, const std::string& what);

}  // namespace stages
