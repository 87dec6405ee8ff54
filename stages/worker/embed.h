#pragma once

#include <nlohmann/json_fwd.hpp>

#include "runner/shared/error/diagnostic.h"
#include "stages/worker/requests.h"

namespace stages {

/// Answers the "embed" request: writes embeddings of image files and lists of similar images.
///
/// {"graph", "node", "checkpoints" (or instead "model", the weights from which the node creates a
/// CLIP model that no run has trained), "paths", "queries" (images to look for among those in the
/// paths; may be empty), "batch_size", "neighbors" (rows per list, 1 or more), "similarity" (the
/// minimum for near-duplicates), "skip_corrupt", "out" (a folder that must not exist)} → an item
/// {"file", "code", "message"} for each unreadable image, then {"folder", "images", "failed",
/// "width", "duplicates" (the number of pairs), "outliers": [{"file", "similarity"}, …] (at most
/// ten), "neighbors": [{"query", "nearest": [{"file", "similarity"}, …]}, …]}, and "weights" as in
/// export.h.
///
/// The folder appears only when it is complete. It contains embeddings.npy, a float32 matrix with
/// one row per image; images.csv, the file of each row; outliers.csv, all images by mean similarity
/// to their nearest neighbors, least similar first; duplicates.csv, the pairs in which one image is
/// among the other's nearest neighbors with a similarity of at least "similarity"; and
/// neighbors.csv if there are queries.
///
/// For a network with two towers, the embedding comes from the image tower. For any other network,
/// it is the head's input, the output "features". Throws runner::StageError: kOptionConflict if the
/// network has neither, kFolderExists.
///
/// If "plan_for" names a GPU, nothing is computed: → {"needed": bytes}, as in predict.h.
runner::Result<nlohmann::ordered_json> answer_embed(const nlohmann::ordered_json& request,
                                                    const RequestContext& context);

}  // namespace stages
