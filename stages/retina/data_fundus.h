#pragma once

#include <cstdint>

#include "runner/shared/stage/run_context.h"
#include "stages/data/image_list.h"
#include "stages/data/image_split.h"

namespace stages {

/// What to do if two parts contain the same image, byte for byte: stop, leave out the copy in the
/// earlier part (train before validation before test), or keep both.
enum class Duplicates : std::uint8_t { kStop, kDrop, kKeep };

/// Checks the parts of a list of graded images before training. Reports the number of images of
/// each grade in each part, the number of patients that the file names identify, the number of
/// images without a known patient, the images and patients that two parts share, and the images
/// that are left out. Throws runner::StageError at "/duplicates" if an image is in two parts and
/// `duplicates` is kStop. Throws at "/split" or "/root" if a part is empty although another stage
/// uses it and its share in `wanted` is above 0; of published parts, only the training part is
/// required.
void check_fundus_parts(ImageList& list, const SplitOptions& wanted, Duplicates duplicates,
                        runner::RunContext& context);

}  // namespace stages
