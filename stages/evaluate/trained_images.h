#pragma once

#include <cstdint>

#include "runner/shared/stage/run_context.h"
#include "stages/artifact/dataset.h"

namespace stages {

/// Reports and returns how many images of a test set the model was trained or validated on,
/// according to the records of its training runs (NodeFacts::trained_data). Images are compared by
/// name if the test set is in the same folder as the training data, otherwise by contents. If the
/// training folder no longer exists, images are compared by name and size, provided that at least
/// half of the images with a known name have the known size. If the test set is wired to a
/// validation part, validation images are allowed. Throws runner::StageError (kBadAnnotations) at
/// /allow_trained if there are such images and they are not `allowed`. Samples that are not files
/// cannot be checked.
std::int64_t check_trained_images(const Dataset& test, bool allowed, runner::RunContext& context);

}  // namespace stages
