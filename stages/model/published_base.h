#pragma once

#include <optional>
#include <string>

#include "stages/model/adapted_clip.h"
#include "stages/model/adapter_folder.h"
#include "stages/model/fine_tuned.h"

namespace stages {

/// Where a library finds the weights below a network's adapters by itself.
struct PublishedBase {
  std::string name_or_path;             ///< "openai/clip-vit-base-patch32", or a folder that it has saved
  std::optional<std::string> revision;  ///< of a repository
};

/// The base of `network` as the library of `layout` loads it, with position embeddings for the network's image size;
/// nullopt where it does not: the weights are random, or another library's, or for images of another size.
std::optional<PublishedBase> published_base(const FineTunedClassifier& network, WeightLayout layout);

/// The same of a CLIP of both towers, as transformers' CLIPModel.
std::optional<PublishedBase> published_base(const AdaptedClip& network);

}  // namespace stages
