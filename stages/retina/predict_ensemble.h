#pragma once

#include <nlohmann/json_fwd.hpp>

#include "runner/shared/error/diagnostic.h"
#include "stages/worker/requests.h"

namespace stages {

/// The request "predict_ensemble": {"graph", "node": one of kind evaluate.pairwise_ensemble, whose
/// trainings and voting are used, "checkpoints", "paths", "top", "batch_size", "skip_corrupt",
/// "flip", "explain" (a folder for drawings; optional)} → an item for each image, in order:
/// {"file", "prediction" (null if it abstains), "tied", "margin", "votes": {class: score}, "pairs":
/// {pair: probability of its second class}, "classes": [{"class", "probability"}, …] by pairwise
/// coupling}, or for a skipped image {"file", "code", "message"}; then {"images", "failed"}, with
/// "explain" also {"pictures": how many were drawn}. One network is in memory at a time, and one
/// number per image and network is kept. "plan_for" as in predict.h.
runner::Result<nlohmann::ordered_json> answer_predict_ensemble(
    const nlohmann::ordered_json& request, const RequestContext& context);

}  // namespace stages
