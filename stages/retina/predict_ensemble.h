#pragma once

#include <nlohmann/json_fwd.hpp>

#include "runner/shared/error/diagnostic.h"
#include "stages/worker/requests.h"

namespace stages {

/// The request "predict_ensemble": {"graph", "node": that of kind evaluate.pairwise_ensemble, whose
/// trainings and voting are meant, "checkpoints", "paths", "top", "batch_size", "skip_corrupt",
/// "flip", "explain" (a folder to draw into; may be missing)} → an item for each image, in order:
/// {"file", "prediction" (null where it abstains), "tied", "margin", "votes": {class: score},
/// "pairs": {pair: probability of its second class}, "classes":
/// [{"class", "probability"}, …] by pairwise coupling}, or where it was skipped {"file", "code",
/// "message"}; then
/// {"images", "failed"}, with "explain" also {"pictures": how many were drawn}. One network is in
/// memory at a time; of the images one number each. "plan_for" as in predict.h.
runner::Result<nlohmann::ordered_json> answer_predict_ensemble(
    const nlohmann::ordered_json& request, const RequestContext& context);

}  // namespace stages
