#pragma once

#include <filesystem>
#include <optional>

#include "runner/shared/error/diagnostic.h"
#include "stages/data/shapes.h"

namespace stages {

/// Draws the images and writes them as JPEG files: `folder`/disc/00000.jpg, …, and what they were
/// made with in `folder`/.retort-made.json. The folder appears when it is complete, or not at all.
/// Throws runner::StageError: kFolderExists when there is anything but an empty folder,
/// kNotAllowedValue for a number of images that cannot be made, kCannotCreate, kCannotWrite or
/// kDiskFull; and runner::Cancelled.
void make_image_folder(const std::filesystem::path& folder, const MadeImages& images,
                       const MakeCallbacks& callbacks = {});

/// An error when `folder`, which exists, was not made with these numbers; its place is for the
/// caller to fill in.
std::optional<runner::Diagnostic> differs(const std::filesystem::path& folder,
                                          const MadeImages& images);

}  // namespace stages
