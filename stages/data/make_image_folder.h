#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>

#include "runner/diagnostic.h"

namespace stages {

/// A set of drawn shapes. Same numbers, same bytes.
struct MadeImages {
  std::int64_t classes = 8;  ///< at most 24
  std::int64_t per_class = 100;
  std::int64_t size = 64;  ///< pixels, both sides
  std::int64_t seed = 0;
};

/// What the making tells and asks; either may be empty.
struct MakeCallbacks {
  std::function<void(std::int64_t done, std::int64_t all)> progress;  ///< images
  std::function<bool()> cancelled;
};

/// Draws the images and writes them as JPEG files: `folder`/disc/00000.jpg, …, and what they were made with in
/// `folder`/.retort-made.json. The folder appears when it is complete, or not at all. Throws runner::StageError:
/// kFolderExists when there is anything but an empty folder, kNotAllowedValue for a number of images that cannot be
/// made, kCannotCreate, kCannotWrite or kDiskFull; and runner::Cancelled.
void make_image_folder(const std::filesystem::path& folder, const MadeImages& images,
                       const MakeCallbacks& callbacks = {});

/// An error when `folder`, which exists, was not made with these numbers; its place is for the caller to fill in.
std::optional<runner::Diagnostic> differs(const std::filesystem::path& folder, const MadeImages& images);

}  // namespace stages
