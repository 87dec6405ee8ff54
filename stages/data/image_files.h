#pragma once

#include "runner/error/diagnostic.h"
#include "stages/data/image_list.h"

namespace stages {

/// Adds an error for the files of `list` that are not there, and for links that lead nowhere or, unless
/// `allow_outside`, out of its root. For lists whose names come from elsewhere than the folders.
void check_files(const ImageList& list, bool allow_outside, runner::Diagnostics& errors);

}  // namespace stages
