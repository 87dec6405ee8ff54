#pragma once

#include <nlohmann/json_fwd.hpp>

#include "runner/shared/error/diagnostic.h"
#include "stages/worker/requests.h"

namespace stages {

/// {"graph", "distance"} → {"data": [{"node", "pointer", "images", "classes", "parts", …}]}.
/// Reports on the images of each node in the graph; all nodes must be data nodes.
/// schemas/output/data_check.json describes the format. Lists of images are limited to a hundred
/// items, but their counts are complete.
runner::Result<nlohmann::ordered_json> answer_check_data(const nlohmann::ordered_json& request,
                                                         const RequestContext& context);

}  // namespace stages
