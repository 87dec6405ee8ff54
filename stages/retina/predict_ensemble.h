#pragma once

#include <nlohmann/json_fwd.hpp>

#include "runner/shared/error/diagnostic.h"
#include "stages/worker/requests.h"

namespace stages {

/// Answers the "predict_ensemble" request: {"graph", "node" (of kind evaluate.pairwise_ensemble;
/// its networks and voting options are used), "checkpoints", "paths", "top", "batch_size",
/// "skip_corrupt", "flip", "explain" (optional: a folder for drawings)}. Sends an item for each
/// image, in order: {"file", "prediction" (null if the ensemble abstains), "tied", "margin",
/// "votes": {class: score}, "pairs": {pair: probability of its second class}, "classes": [{"class",
/// "probability"}, …] by pairwise coupling}, or {"file", "code", "message"} for a skipped image.
/// Returns {"images", "failed"} and, with "explain", "pictures", the number of drawings. Only one
/// network is in memory at a time, plus one number per image and network. "plan_for" works as in
/// predict.h.
runner::Result<nlohmann::ordered_json> answer_predict_ensemble(
    const nlohmann::ordered_json& request, const RequestContext& context);

}  // namespace stages
