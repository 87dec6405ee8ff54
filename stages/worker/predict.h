#pragma once

#include <nlohmann/json_fwd.hpp>

#include "runner/shared/error/diagnostic.h"
#include "stages/worker/requests.h"

namespace stages {

/// Answers the "predict" request: a trained classifier's predictions for image files.
///
/// {"graph", "node", "checkpoints" (or instead "model", the weights from which the node creates a
/// CLIP model that no run has trained), "paths", "top", "batch_size", "skip_corrupt", "flip"
/// (default "none"), "support" (a folder with examples of each class, only for few-shot models),
/// "labels" (texts to compare images with, only for CLIP; without them, its class head predicts or,
/// if it has none, the texts are "a photo of a {name}." with the classes seen in training),
/// "explain" (optional: a folder for images of where a convolutional network looked)} → an item for
/// each image in order: {"file", "classes": [{"class", "probability"}, …]}, or {"file", "code",
/// "message"} if it was skipped; then {"images", "failed"}, with "explain" also {"pictures"}, and
/// "weights" as in export.h.
///
/// If "plan_for" names a GPU, no prediction is made: → {"needed": the number of bytes that a
/// prediction would need there, or 0 if unknown}. Apart from file names, memory use does not grow
/// with the number of images.
runner::Result<nlohmann::ordered_json> answer_predict(const nlohmann::ordered_json& request,
                                                      const RequestContext& context);

}  // namespace stages
