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

/// Answers the request "predict": a trained classifier's predictions for image files.
///
/// {"graph", "node", "checkpoints" (or instead "model", the weights from which the node creates a
/// CLIP that no run has trained), "paths", "top", "batch_size", "skip_corrupt", "flip" (default
/// "none"), "support" (a folder with examples of each class, only for few-shot models), "labels"
/// (texts to compare images with, only for a CLIP; without them its class head predicts or, if it
/// has none, "a photo of a {name}." with the classes seen in training), "explain" (optional: a
/// folder for images of where a convolutional network looked)} → an item for each image, in order:
/// {"file", "classes": [{"class", "probability"}, …]}, or {"file", "code", "message"} if it was
/// skipped; then {"images", "failed"}, with "explain" also {"pictures"}, and "weights" as in
/// export.h.
///
/// With "plan_for", the name of a GPU, nothing is predicted: → {"needed": the bytes that a
/// prediction would need there, or 0 if unknown}. Memory does not grow with the number of images,
/// except for their names.
runner::Result<nlohmann::ordered_json> answer_predict(const nlohmann::ordered_json& request,
                                                      const RequestContext& context);

/// A few example images of each class, with which a few-shot model classifies other images.
class SupportExamples {
 public:
  /// `images` are (classes * shots, 3, size, size), class by class.
  SupportExamples(at::Tensor images, std::vector<std::string> classes, std::int64_t shots)
      : images_(std::move(images)), classes_(std::move(classes)), shots_(shots) {}

  const std::vector<std::string>& classes() const { return classes_; }
  /// Returns an episode with the "image" (n, 3, size, size) of `queries` as queries.
  Batch asked_about(const Batch& queries) const;

 private:
  at::Tensor images_;
  std::vector<std::string> classes_;
  std::int64_t shots_;
};

/// Reads a folder that has one folder of images per class. Uses the first images of each class by
/// name: as many as there were shots in training, but no more than the smallest class has. Reports
/// how many are not used. Returns an error for images outside a class folder or fewer than two
/// classes. Throws for images that cannot be read.
runner::Result<SupportExamples> read_support(const std::string& folder, const EpisodeShape& trained,
                                             const ImageDatasetOptions& transform,
                                             const std::function<void(std::string_view)>& say);

}  // namespace stages
