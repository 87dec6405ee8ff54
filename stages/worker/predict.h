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

/// The request "predict": what a trained classifier says of image files. {"graph", "node",
/// "checkpoints" (or in its place "model", the weights of the CLIP that the node makes, which no
/// run has trained), "paths", "top", "batch_size", "skip_corrupt", "flip" ("none" where it is
/// missing), "support" (a folder of examples of each class, of a few-shot model alone), "labels"
/// (texts to compare images with, of a CLIP alone; without them its class head answers, or where it
/// has none, "a photo of a {name}." of the classes of its training), "explain" (a folder to draw
/// into where a convolutional network looked; may be missing)} → an item for each image, in order:
/// {"file", "classes": [{"class", "probability"}, …]}, or where it was skipped {"file", "code",
/// "message"}; then
/// {"images", "failed"}, with "explain" also {"pictures"}, and "weights" as export.h has it. With
/// "plan_for", the name of a GPU, nothing is predicted: →
/// {"predicted": the bytes that it would take there; 0: nobody knows}. Memory does not grow with
/// the number of images but for their names.
runner::Result<nlohmann::ordered_json> answer_predict(const nlohmann::ordered_json& request,
                                                      const RequestContext& context);

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

/// Reads a folder that has a folder of pictures for each class. Of each class as many are taken,
/// the first by name, as the training had shots, or as the class with the fewest has; what is left
/// out is said. All errors at once: no folder of a class, pictures outside of one, one that cannot
/// be read.
runner::Result<SupportExamples> read_support(const std::string& folder, const EpisodeShape& trained,
                                             const ImageDatasetOptions& transform,
                                             const std::function<void(std::string_view)>& say);

}  // namespace stages
