#pragma once

#include "stages/worker/requests.h"

namespace stages {

/// "network_pixels": {"graph"} → {"networks": [{"node", "image_size", "mean", "std", "source"}]},
/// one for each model.python of the graph, omitting values that Python does not know
/// (retort_host/pixels.py). "source" says where the values come from. Runs the Python code that
/// creates the networks, on the Meta device.
runner::Result<nlohmann::ordered_json> answer_network_pixels(const nlohmann::ordered_json& request,
                                                             const RequestContext& context);

}  // namespace stages
