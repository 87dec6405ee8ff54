#pragma once

#include <nlohmann/json_fwd.hpp>

#include "runner/shared/error/diagnostic.h"
#include "stages/worker/requests.h"

namespace stages {

/// {"graph", "distance"} → {"data": [{"node", "pointer", "images", "classes", "parts", …}]}, in the
/// terms of schemas/output/data_check.json: a report about the images of each node of the graph;
/// all nodes are data nodes. Lists of images are cut after the hundredth; their counts are
/// complete.
runner::Result<nlohmann::ordered_json> answer_check_data(const nlohmann::ordered_json& request,
                                                         const RequestContext& context);

}  // namespace stages
