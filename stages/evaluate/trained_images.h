#pragma once

#include "runner/shared/stage/run_context.h"
#include "stages/artifact/dataset.h"

namespace stages {

/// Reports how many images of a test set the model was trained on, or used for validation,
/// according to the records of its training runs (NodeFacts::trained_data). An image below the same
/// folder is identified by its name, one below another folder by its bytes. If the training's
/// folder is gone, images are identified by name and size, provided that the size agrees for at
/// least half of the images with a known name. Data wired to the validation part may be validation
/// images. Throws runner::StageError, kBadAnnotations, at /allow_trained if there are such images
/// and they are not `allowed`. Samples that are not files cannot be checked.
void check_trained_images(const Dataset& test, bool allowed, runner::RunContext& context);

}  // namespace stages
