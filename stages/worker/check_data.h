#pragma once

#include <nlohmann/json_fwd.hpp>

#include "runner/shared/error/diagnostic.h"
#include "stages/worker/requests.h"

namespace stages {

/// {"graph", "distance"} → {"data": [{"node", "pointer", "images", "classes", "parts", …}]}, in the
/// words of schemas/output/data_check.json: what the pictures of each node of the graph are, which
/// are all data. Lists of pictures are cut after the hundredth; their numbers are whole.
runner::Result<nlohmann::ordered_json> answer_check_data(const nlohmann::ordered_json& request,
                                                         const RequestContext& context);

}  // namespace stages
