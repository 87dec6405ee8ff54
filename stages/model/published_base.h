#pragma once

#include <optional>
#include <string>

#include "stages/model/weight_names.h"

namespace stages {

class AdaptedClip;
class FineTunedClassifier;

/// Where a library finds the base weights of an adapted network.
struct PublishedBase {
  std::string name_or_path;  ///< "openai/clip-vit-base-patch32", or a folder saved by the library
  std::optional<std::string> revision;  ///< revision of that repository
};

/// Returns where the library of `layout` can find the base weights of `network`, with position
/// embeddings for the network's image size. Returns nullopt if it cannot, because the weights are
/// random, in another library's format, or for another image size.
std::optional<PublishedBase> published_base(const FineTunedClassifier& network,
                                            WeightLayout layout);

/// Returns where transformers' CLIPModel can find the base weights of a CLIP model with both
/// towers; nullopt if it cannot.
std::optional<PublishedBase> published_base(const AdaptedClip& network);

}  // namespace stages
