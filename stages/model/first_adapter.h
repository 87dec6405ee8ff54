#pragma once

#include <string>
#include <vector>

#include "stages/model/attached_lora.h"

namespace stages {

/// The classifier above a network's adapters, as the network shares it; undefined where there is none.
struct HeadWeights {
  at::Tensor weight, bias;
};

/// Copies the adapter in `folder`, and the head beside it, into those of `network`, by whichever library's names it
/// bears: of a CLIP of both towers it may be for one of them alone, or saved from one. Gives notes on what was taken.
/// Throws runner::StageError, to be blamed on adapter, where it does not fit; then no adapter is changed.
std::vector<std::string> begin_from(const std::string& folder, const torch::nn::Module& network,
                                    const AttachedLora& lora, const HeadWeights& head);

/// Notes on what in the options of `lora` has no effect.
std::vector<std::string> without_effect(const AttachedLora& lora);

}  // namespace stages
