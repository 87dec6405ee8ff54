#pragma once

#include <filesystem>

namespace stages {

class ImageClassifier;

/// Writes `network`, which has no adapters, as a TorchScript program: of pixels (n, 3, image_size,
/// image_size) for any n, the logits (n, classes), computed in float32. What is written is run
/// once, and gives what the network gives.
void write_torch_script(const ImageClassifier& network, const std::filesystem::path& file);

}  // namespace stages
