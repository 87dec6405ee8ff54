#pragma once

#include "runner/shared/stage/run_context.h"
#include "stages/artifact/dataset.h"

namespace stages {

/// Says how many images of a test set its model has been trained on, or has had for validation, by
/// what the runs of its trainings have recorded (NodeFacts::trained_data). Below the same folder an
/// image is known by its name, below another one by its bytes, and where the folder of the training
/// is gone by name and size, if most of one name have one size. What is wired to the part for
/// validation may be that. Throws runner::StageError, kBadAnnotations, at /allow_trained where
/// there are some and they are not `allowed`. Of samples that are no files nothing is known.
void check_trained_images(const Dataset& test, bool allowed, runner::RunContext& context);

}  // namespace stages
