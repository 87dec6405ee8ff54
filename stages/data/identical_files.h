#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "stages/data/image_list.h"

namespace stages {

/// The position of an image in an ImageList.
struct ImagePlace {
  Part part = Part::kTrain;
  std::size_t index = 0;
  auto operator<=>(const ImagePlace&) const = default;
};

/// Returns groups of two or more images with identical files, in the list's order. Files with a
/// unique size are not read. For the others, the first and last bytes are compared before the whole
/// files, so the search takes barely longer than querying the file sizes. An unreadable file never
/// counts as identical to another. `look` is called before each file is opened, and may throw.
std::vector<std::vector<ImagePlace>> identical_files(const ImageList& list,
                                                     const std::function<void()>& look = {});

}  // namespace stages
