#include "experiments/oom_claims/classification.h"

#include <torch/nn/module.h>

#include "experiments/oom_claims/image_network.h"
#include "stages/train/classification_loss.h"

namespace oom_claims {

std::vector<stages::LossTerm> ClassificationStep::terms() const {
  return {{"cross_entropy", stages::Coupling::kPerSample}};
}

stages::NamedTensors ClassificationStep::encode(torch::nn::Module& network,
                                                const stages::Batch& part) const {
  return {{"logits", dynamic_cast<ImageNetwork&>(network).logits(part["image"])}};
}

stages::NamedTensors ClassificationStep::loss(const stages::NamedTensors& encoded,
                                              const stages::Batch& part) const {
  return {{"cross_entropy", stages::cross_entropy_sum(encoded.at("logits"), part["label"], 0)}};
}

}  // namespace oom_claims
