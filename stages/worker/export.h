#pragma once

#include <nlohmann/json_fwd.hpp>

#include "runner/shared/error/result.h"
#include "stages/worker/requests.h"

namespace stages {

/// Writes the network that a run has trained as other libraries load it.
/// {"graph", "node", "checkpoints", "what": "merged", "adapter" or "torchscript", "out", "names", "head_inside"} →
/// {"folder", "files"}, and "weights", "averaged" or "trained", of a training that averages them. The folder appears
/// when it is whole, or not at all. Throws runner::StageError: kFolderExists, and kOptionConflict for what a library
/// has no form for.
runner::Result<nlohmann::ordered_json> answer_export(const nlohmann::ordered_json& request,
                                                     const RequestContext& context);

}  // namespace stages
