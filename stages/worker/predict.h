#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>
#include <nlohmann/json_fwd.hpp>

#include "runner/shared/error/diagnostic.h"
#include "stages/artifact/episode_set.h"
#include "stages/data/image_dataset.h"
#include "stages/tensor/batch.h"
#include "stages/worker/requests.h"

namespace stages {

/// The request "predict": a trained classifier's predictions for image files.
///
/// {"graph", "node", "checkpoints" (or in its place "model", the weights of the CLIP that the node
/// makes, which no run has trained), "paths", "top", "batch_size", "skip_corrupt", "flip" (default
/// "none"), "support" (a folder of examples of each class, only for a few-shot model), "labels"
/// (texts to compare images with, only for a CLIP; without them its class head answers, or if it
/// has none, "a photo of a {name}." with the classes of its training), "explain" (a folder to draw
/// into where a convolutional network looked; optional)} → an item for each image, in order:
/// {"file", "classes": [{"class", "probability"}, …]}, or if it was skipped {"file", "code",
/// "message"}; then {"images", "failed"}, with "explain" also {"pictures"}, and "weights" as in
/// export.h.
///
/// With "plan_for", the name of a GPU, nothing is predicted: → {"needed": the bytes that a
/// prediction would need there; 0: unknown}. Memory does not grow with the number of images, except
/// for their names.
runner::Result<nlohmann::ordered_json> answer_predict(const nlohmann::ordered_json& request,
                                                      const RequestContext& context);

/// A few example images of each class, by which a few-shot model classifies others.
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

/// Reads a folder that has a folder of images for each class. From each class it uses the first
/// images by name: as many as the training had shots, or as many as the smallest class has. What is
/// left out is reported. All errors are returned at once: no class folders, images outside a class
/// folder, images that cannot be read.
runner::Result<SupportExamples> read_support(const std::string& folder, const EpisodeShape& trained,
                                             const ImageDatasetOptions& transform,
                                             const std::function<void(std::string_view)>& say);

}  // namespace stages
