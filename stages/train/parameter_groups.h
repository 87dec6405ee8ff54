#pragma once

#include <vector>

#include "stages/train/optimizer.h"
#include "stages/train/parameter_group_options.h"

namespace torch::nn {
class Module;
}

namespace stages {

/// Divides a network's parameters: each belongs to the first group that matches it. First come those that none does, if
/// there are any, under the optimizer's own options, then the groups that are trained. Those of frozen groups ask for
/// no gradient any more; those that asked for none are in no group. Throws runner::StageError where a pattern matches
/// nothing, or nothing that is left, and where nothing is trained; then the network is as it was.
std::vector<ParameterGroup> divide_parameters(torch::nn::Module& network, const OptimizerOptions& optimizer,
                                              const std::vector<ParameterGroupOptions>& groups);

}  // namespace stages
