#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runner/parent/cli/weights_source.h"

namespace runner {

/// The request `name` about a CLIP that no run has trained: `reference` is a folder as transformers
/// saves one, with config.json, its weights, merges.txt and preprocessor_config.json, or
/// hf:ORG/NAME, such a folder in the Hub's cache. The graph has the node "model", and the request
/// says "model": `reference`. `overrides` may change the device and the threads. Errors have no
/// place: there is no recipe that anybody wrote.
Result<WeightsRequest> model_request(std::string_view name, const std::string& reference,
                                     const std::vector<std::string>& overrides, Sources& sources);

}  // namespace runner
