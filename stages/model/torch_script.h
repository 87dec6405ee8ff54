#pragma once

#include <filesystem>

namespace stages {

class ImageClassifier;

/// Writes `network`, which must have no adapters, as a TorchScript program. The program maps pixels
/// (n, 3, image_size, image_size), for any n, to logits (n, classes), computed in float32. It is
/// run once before it is written; throws std::logic_error if its logits differ from the network's.
void write_torch_script(const ImageClassifier& network, const std::filesystem::path& file);

}  // namespace stages
