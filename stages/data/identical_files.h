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

/// The images of `list` whose files are byte-for-byte equal, in groups of two or more, in the
/// list's order. A file of unique size is not read. Of other files only both ends are read at
/// first, so a hundred thousand images take as long as querying their sizes. Unreadable files equal
/// no other. `look` is called before each file that is opened; it may throw.
std::vector<std::vector<ImagePlace>> identical_files(const ImageList& list,
                                                     const std::function<void()>& look = {});

}  // namespace stages
