#pragma once

#include <memory>

#include "runner/stage/stage.h"
#include "stages/data/image_options.h"

namespace runner {
class RunContext;
}

namespace stages {

/// What a data stage of images puts out: a dataset for each part of `list`, under "train", "validation" and "test", and
/// a line that says how many images each has. Without images for validation there is no such output; an empty test set
/// stays, so that who needs it can say so.
runner::Outputs image_parts(std::shared_ptr<const ImageList> list, const ImageOptions& options,
                            runner::RunContext& context);

}  // namespace stages
