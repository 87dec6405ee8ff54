#pragma once

#include <filesystem>

namespace stages {

class ImageClassifier;

/// Writes `network`, which has no adapters, as a TorchScript program that maps pixels (n, 3,
/// image_size, image_size), for any n, to the logits (n, classes), computed in float32. The written
/// program is run once to check that it gives the network's output.
void write_torch_script(const ImageClassifier& network, const std::filesystem::path& file);

}  // namespace stages
