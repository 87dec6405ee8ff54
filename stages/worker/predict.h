#pragma once

#include <nlohmann/json_fwd.hpp>

#include "runner/shared/error/result.h"
#include "stages/worker/requests.h"

namespace stages {

/// The request "predict": what a trained classifier says of image files. {"graph", "node", "checkpoints" (or in its
/// place "model", the weights of the CLIP that the node makes, which no run has trained), "paths",
/// "top", "batch_size", "skip_corrupt", "flip" ("none" where it is missing), "support" (a folder of examples of each
/// class, of a few-shot model alone), "labels" (texts to compare images with, of a CLIP alone; without them its class
/// head answers, or where it has none, "a photo of a {name}." of the classes of its training), "explain" (a folder to
/// draw into where a convolutional network looked; may be missing)} → an item for each image, in order:
/// {"file", "classes": [{"class", "probability"}, …]}, or where it was skipped {"file", "code", "message"}; then
/// {"images", "failed"}, with "explain" also {"pictures"}, and "weights" as export.h has it. With "plan_for", the name
/// of a GPU, nothing is predicted: →
/// {"predicted": the bytes that it would take there; 0: nobody knows}. Memory does not grow with the number of images
/// but for their names.
runner::Result<nlohmann::ordered_json> answer_predict(const nlohmann::ordered_json& request,
                                                      const RequestContext& context);

}  // namespace stages
