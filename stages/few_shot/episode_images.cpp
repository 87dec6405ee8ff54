#include "stages/few_shot/episode_images.h"

#include <algorithm>

#include "runner/shared/stage/stage.h"

namespace stages {
namespace {

const TensorSpec* tensor_named(const DatasetDescription& data, std::string_view name) {
  const auto found = std::ranges::find(data.tensors, name, &TensorSpec::name);
  return found == data.tensors.end() ? nullptr : &*found;
}

[[noreturn]] void refuse_episode(const std::string& message, const std::string& help, const std::string& pointer) {
  throw runner::StageError(runner::ErrorCode::kOptionConflict, message).in_stage(pointer).with_help(help);
}

}  // namespace

EpisodeImages fitting_episode(const DatasetDescription& data, const std::string& pointer) {
  const TensorSpec *support = tensor_named(data, "support"), *label = tensor_named(data, "label");
  if (!support || !label || support->shape.size() != 2 || label->shape.size() != 1) {
    refuse_episode("this model learns from episodes, and the data gives single samples",
                   "train it by train.episodic, which makes episodes of the images of a data stage", pointer);
  }
  const TensorSpec* image = tensor_named(data, "image");
  if (!image || image->shape.size() != 4 || image->shape[1] != 3) {
    refuse_episode("the episodes have no images of three channels",
                   "this model classifies colour images: wire it to a data stage that gives them", pointer);
  }
  const EpisodeImages episode{.ways = support->shape[0],
                              .shots = support->shape[1],
                              .queries = label->shape[0],
                              .height = image->shape[2],
                              .width = image->shape[3]};
  if (image->shape[0] != episode.supports() + episode.queries) {
    refuse_episode("an episode has " + std::to_string(image->shape[0]) + " images, and " +
                       std::to_string(episode.supports()) + " supports and " + std::to_string(episode.queries) +
                       " queries",
                   "give an image for each of them", pointer);
  }
  return episode;
}

}  // namespace stages
