#include "stages/data/image_parts.h"

#include <string>

#include <torch/torch.h>

#include "runner/stage/run_context.h"

namespace stages {

runner::Outputs image_parts(std::shared_ptr<const ImageList> list, const ImageOptions& options,
                            runner::RunContext& context) {
  const auto count = [&](Part part) { return std::to_string((*list)[part].size()); };
  context.say(std::to_string(list->classes.size()) + " classes; " + count(Part::kTrain) + " images for training, " +
              count(Part::kValidation) + " for validation, " + count(Part::kTest) + " for test");

  ImageDatasetOptions images = options.images;
  if (images.loader.pinned && !(context.device().starts_with("cuda") && torch::cuda::is_available())) {
    context.say("loader.pinned has no effect: nothing is copied to a GPU");
    images.loader.pinned = false;
  }
  const auto cache = options.cache_mib > 0 ? std::make_shared<ImageCache>(options.cache_mib << 20) : nullptr;
  const auto part = [&](Part part) {
    return std::make_shared<const ImageDataset>(list, part, images, context.seed(), cache);
  };
  runner::Outputs outputs = {{"train", part(Part::kTrain)}, {"test", part(Part::kTest)}};
  if (!(*list)[Part::kValidation].empty()) outputs["validation"] = part(Part::kValidation);
  return outputs;
}

}  // namespace stages
