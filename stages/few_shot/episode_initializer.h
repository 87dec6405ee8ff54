#pragma once

#include <cstdint>

namespace stages {

class EpisodeNetwork;
class FeatureMaps;

/// Draws every weight of the network's head: of linear layers and convolutions by torch's own rule, uniform within
/// 1 / sqrt(inputs of an output); prototypes are means at first. A weight is a function of the seed, its name and its
/// shape.
void initialize_head(EpisodeNetwork& network, std::uint64_t seed);
/// The same of such a network's backbone: convolutions normal with the variance 2 / (outputs · kernel), which keeps
/// that of what goes backward (He and others 2015, arXiv:1502.01852), their biases by torch's rule.
void initialize_backbone(FeatureMaps& backbone, std::uint64_t seed);

}  // namespace stages
