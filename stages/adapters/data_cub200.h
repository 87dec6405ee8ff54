#pragma once

#include <filesystem>

#include "runner/shared/error/diagnostic.h"
#include "stages/data/image_list.h"

namespace stages {

/// Lists CUB-200-2011 in root/ or root/CUB_200_2011/, in the order of images.txt: the images below
/// images/ with their class and published part, training or test, and with the bird's bounding box
/// if `boxes` is set. The text files are joined by image number, and their lines may be in any
/// order. Class names come from classes.txt, without their numbers and with spaces instead of
/// underscores. All errors, including missing image files, are reported together; they give files
/// and line numbers, but no location in the recipe.
runner::Result<ImageList> list_cub200(const std::filesystem::path& root, bool boxes,
                                      bool allow_outside);

}  // namespace stages
