#pragma once

#include <cstdint>
#include <string>

#include "stages/artifact/dataset.h"

namespace stages {

/// The numbers of an episode: a few images of each of some classes (ways, shots), and images to be told apart by them.
struct EpisodeImages {
  std::int64_t ways = 0, shots = 0, queries = 0;  ///< queries of all classes together
  std::int64_t height = 0, width = 0;             ///< of an image
  std::int64_t supports() const { return ways * shots; }
};

/// What episodes such data are. A sample is one: "image" (supports + queries, 3, height, width), the supports first,
/// class by class; "support" (ways, shots); "label" (queries). Throws runner::StageError, which blames the stage at
/// `pointer`, where they are none.
EpisodeImages fitting_episode(const DatasetDescription& data, const std::string& pointer);

}  // namespace stages
