#pragma once

#include <filesystem>
#include <optional>

#include "runner/shared/error/diagnostic.h"
#include "stages/data/shapes.h"

namespace stages {

/// Draws the images and writes them as JPEG files, `folder`/disc/00000.jpg and so on, with the
/// parameters in `folder`/.retort-made.json. The folder appears only once it is complete. Throws
/// runner::StageError: kFolderExists if the folder exists and is not empty, kNotAllowedValue for
/// invalid parameters, kCannotCreate, kCannotWrite or kDiskFull; and runner::Canceled.
void make_image_folder(const std::filesystem::path& folder, const MadeImages& images,
                       const MakeCallbacks& callbacks = {});

/// Returns an error if the existing `folder` was not created with these parameters; otherwise
/// nullopt. The caller fills in the error's location.
std::optional<runner::Diagnostic> differs(const std::filesystem::path& folder,
                                          const MadeImages& images);

}  // namespace stages
