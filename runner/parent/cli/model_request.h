#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runner/parent/cli/weights_source.h"

namespace runner {

/// Returns the worker request `name` for a CLIP model that no run has trained. `reference` is
/// a folder saved by transformers, with config.json, weights, merges.txt and
/// preprocessor_config.json, or hf:ORG/NAME for such a folder in the Hub's cache. The graph has the
/// node "model", and the request has `reference` under "model". `overrides` may change the device
/// and the threads. Errors have no source location, since the recipe was not written by a user.
Result<WeightsRequest> model_request(std::string_view name, const std::string& reference,
                                     const std::vector<std::string>& overrides, Sources& sources);

}  // namespace runner
