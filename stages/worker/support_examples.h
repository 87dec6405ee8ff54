#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "runner/shared/error/result.h"
#include "stages/artifact/episode_set.h"
#include "stages/data/image_dataset.h"
#include "stages/tensor/batch.h"

namespace stages {

/// A few photographs of each of some classes, by which a few-shot model tells what others show.
class SupportExamples {
 public:
  /// `images` (classes * shots, 3, size, size), class by class.
  SupportExamples(at::Tensor images, std::vector<std::string> classes, std::int64_t shots)
      : images_(std::move(images)), classes_(std::move(classes)), shots_(shots) {}

  const std::vector<std::string>& classes() const { return classes_; }
  /// The episode whose queries are the "image" (n, 3, size, size) of `queries`.
  Batch asked_about(const Batch& queries) const;

 private:
  at::Tensor images_;
  std::vector<std::string> classes_;
  std::int64_t shots_;
};

/// Reads a folder that has a folder of pictures for each class. Of each class as many are taken, the first by name, as
/// the training had shots, or as the class with the fewest has; what is left out is said. All errors at once: no folder
/// of a class, pictures outside of one, one that cannot be read.
runner::Result<SupportExamples> read_support(const std::string& folder, const EpisodeShape& trained,
                                             const ImageDatasetOptions& transform,
                                             const std::function<void(std::string_view)>& say);

}  // namespace stages
