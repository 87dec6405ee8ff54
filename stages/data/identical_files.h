#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "stages/data/image_list.h"

namespace stages {

/// An image of a list.
struct ImagePlace {
  Part part = Part::kTrain;
  std::size_t index = 0;
  auto operator<=>(const ImagePlace&) const = default;
};

/// The images of `list` whose files are the same byte for byte, in groups of two or more, in its
/// order. Of a file whose size nobody else has nothing is read, and of others at first both ends
/// only, so that a hundred thousand photographs take as long as asking for their sizes. Files that
/// cannot be read are like no other. `look` is called before each file that is opened; it may
/// throw.
std::vector<std::vector<ImagePlace>> identical_files(const ImageList& list,
                                                     const std::function<void()>& look = {});

}  // namespace stages
