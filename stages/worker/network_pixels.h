#pragma once

#include "stages/worker/requests.h"

namespace stages {

/// "network_pixels": {"graph"} → {"networks": [{"node", "image_size", "mean", "std", "resize",
/// "lost", "source"}]}, one for each model.python of the graph, without what Python does not know
/// about its images (retort_host/pixels.py). "source" names where the values are from, and "lost"
/// lists in words how the network's images are resized beyond the options in "resize". Runs the
/// Python code that creates the networks, on the Meta device.
runner::Result<nlohmann::ordered_json> answer_network_pixels(const nlohmann::ordered_json& request,
                                                             const RequestContext& context);

}  // namespace stages
