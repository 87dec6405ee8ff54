#pragma once

#include <cstdint>

#include "runner/shared/stage/run_context.h"
#include "stages/data/image_list.h"

namespace stages {

/// What to do with an image that is in two parts, byte for byte: stop, leave out the copy in the
/// earlier part (train before validation before test), or keep both.
enum class Duplicates : std::uint8_t { kStop, kDrop, kKeep };

/// Checks the parts of a list of graded images before any training. Reports how many images of each
/// grade each part has, how many patients the file names identify and how many images have no known
/// patient, which images and patients two parts share, and what is left out. Throws
/// runner::StageError at "/duplicates" if an image is in two parts and duplicates are to stop the
/// run, and at "/split" or "/root" for an empty part that another stage uses and that has a share
/// above 0 in `wanted`. Of published parts only the training part is required, for a run that
/// trains.
void check_fundus_parts(ImageList& list, const SplitOptions& wanted, Duplicates duplicates,
                        runner::RunContext& context);

}  // namespace stages
