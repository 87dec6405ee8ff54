#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <ATen/core/Tensor.h>

#include "stages/data/image_dataset.h"
#include "stages/data/seen_image.h"

namespace stages {

/// A folder of images overlaid with Grad-CAM maps.
///
///   ActivationFolder folder("why", transform);
///   folder.write("photos/a.jpg", 0, "daisy", class_activation(network, checkpoint, pixels, 3, 1));
class ActivationFolder {
 public:
  /// `transform` turns an image into the network's input.
  ActivationFolder(std::string folder, ImageDatasetOptions transform);

  /// Creates the folder if it is missing, and writes activation_picture() of the image at
  /// `file`, image `index` of the request, as <name of the file>.<index>.<what>.png. Throws
  /// runner::StageError if the image can no longer be read, and runner::WriteError.
  void write(const std::string& file, std::int64_t index, const std::string& what,
             const at::Tensor& activation);

  /// The number of pictures written so far.
  std::int64_t written() const { return written_; }
  /// Returns a sentence about the images that were drawn at reduced size; "" if there are none.
  std::string remark() const;

 private:
  const SeenImage& image(const std::string& file, std::int64_t index);

  const std::string folder_;
  const ImageDatasetOptions transform_;
  std::optional<SeenImage> latest_;  // the image drawn last, since it may have more maps
  std::int64_t latest_index_ = -1;
  std::int64_t written_ = 0, reduced_ = 0;
};

}  // namespace stages
