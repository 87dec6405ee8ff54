#pragma once

#include <string>
#include <variant>

#include "stages/model/resnet.h"
#include "stages/model/timm_weights.h"
#include "stages/weights/weights.h"

namespace stages {

struct ConvolutionalClassifierConfig;
struct SavedWeights;

/// Assigns saved weights to the backbone of a convolutional classifier: by torchvision's names for
/// a ResNet of basic blocks, otherwise by timm's.
class BackboneWeights {
 public:
  /// Uses only the names and shapes of `saved`. `backbone` must outlive this object; it may be on
  /// the Meta device. Throws runner::StageError at the weights option if they do not match.
  BackboneWeights(const ConvolutionalClassifierConfig& config, FeatureMaps& backbone,
                  const SavedWeights& saved);

  /// Returns a sink that writes the tensors it receives to the backbone. This object must outlive
  /// it.
  WeightSink sink();
  /// Returns a summary of what was found, for the user: "102 tensors; left out: fc.bias and
  /// fc.weight".
  std::string text() const;

 private:
  const ConvolutionalClassifierConfig& config_;
  std::variant<TimmWeightPlaces, ResNetPlaces> places_;
};

}  // namespace stages
