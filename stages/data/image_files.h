#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "runner/shared/error/diagnostic.h"
#include "stages/data/image_list.h"
#include "stages/data/image_root.h"

namespace stages {

/// The files of `list` that are not there, in its order; links that lead nowhere or, unless `allow_outside`, out of its
/// root become errors.
std::vector<std::string> missing_files(const ImageList& list, bool allow_outside, runner::Diagnostics& errors);

/// Adds an error for the files of `list` that are not there, and for links that lead nowhere or, unless
/// `allow_outside`, out of its root. For lists whose names come from elsewhere than the folders. Of the files that
/// are not there `most` are named, and `help` says what to do.
void check_files(const ImageList& list, bool allow_outside, runner::Diagnostics& errors,
                 std::size_t most = kListedFiles,
                 const std::string& help = "unpack the data set's archive again: it was not unpacked completely");

}  // namespace stages
