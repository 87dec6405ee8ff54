#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "runner/shared/error/diagnostic.h"
#include "stages/artifact/episode_set.h"
#include "stages/data/image_dataset.h"
#include "stages/tensor/batch.h"

namespace stages {

/// A few example images per class, which a few-shot model needs to classify other images.
class SupportExamples {
 public:
  /// `images` are (classes * shots, 3, size, size), class by class.
  SupportExamples(at::Tensor images, std::vector<std::string> classes, std::int64_t shots)
      : images_(std::move(images)), classes_(std::move(classes)), shots_(shots) {}

  const std::vector<std::string>& classes() const { return classes_; }
  /// Returns an episode that has the "image" tensor (n, 3, size, size) of `queries` as its queries.
  Batch asked_about(const Batch& queries) const;

 private:
  at::Tensor images_;
  std::vector<std::string> classes_;
  std::int64_t shots_;
};

/// Reads a folder that has one folder of images per class. Uses the first images of each class by
/// name: as many as there were shots in training, but no more than the smallest class has. Reports
/// how many images are not used. Returns an error for images outside a class folder or fewer than
/// two classes. Throws for images that cannot be read.
runner::Result<SupportExamples> read_support(const std::string& folder, const EpisodeShape& trained,
                                             const ImageDatasetOptions& transform,
                                             const std::function<void(std::string_view)>& say);

}  // namespace stages
