#pragma once

#include <filesystem>
#include <optional>

#include "runner/shared/error/diagnostic.h"
#include "stages/data/shapes.h"

namespace stages {

/// Draws the images and writes them as JPEG files: `folder`/disc/00000.jpg, …, with the parameters
/// in `folder`/.retort-made.json. The folder appears when it is complete, or not at all. Throws
/// runner::StageError: kFolderExists if the folder exists and is not empty, kNotAllowedValue for an
/// impossible number of images, kCannotCreate, kCannotWrite or kDiskFull; and runner::Cancelled.
void make_image_folder(const std::filesystem::path& folder, const MadeImages& images,
                       const MakeCallbacks& callbacks = {});

/// An error if the existing `folder` was made with other numbers; the caller fills in its place.
std::optional<runner::Diagnostic> differs(const std::filesystem::path& folder,
                                          const MadeImages& images);

}  // namespace stages
