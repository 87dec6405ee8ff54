#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace runner {

/// An example image of an evaluation, from its examples/ (stages/evaluate/example_images.h).
struct RecordedExample {
  std::string group;               ///< "most confident wrong predictions"
  std::string name;                ///< the sample's name in its dataset
  std::string jpeg;                ///< the whole file
  std::vector<std::string> lines;  ///< the text to show with it
};

/// Reads the example images in the folder of a node, in the order of examples.json: at most a
/// hundred JPEG files of at most 256 KiB. Leaves out damaged entries.
std::vector<RecordedExample> recorded_examples(const std::filesystem::path& node);

}  // namespace runner
