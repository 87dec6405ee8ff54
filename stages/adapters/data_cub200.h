#pragma once

#include <filesystem>

#include "runner/shared/error/diagnostic.h"
#include "stages/data/image_list.h"

namespace stages {

/// What root/ or root/CUB_200_2011/ holds, in the order of images.txt: the images below images/
/// with their class and published part, training or test; with `boxes` also where in it the bird
/// is. The five text files are joined by the numbers of the images, which may come in any order.
/// The classes are named as classes.txt does, without their number and with spaces for underscores.
/// Everything wrong is reported at once, files and lines named, without a place in the recipe,
/// image files that are not there included.
runner::Result<ImageList> list_cub200(const std::filesystem::path& root, bool boxes,
                                      bool allow_outside);

}  // namespace stages
