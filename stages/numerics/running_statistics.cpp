#include "stages/numerics/running_statistics.h"

#include <torch/nn/module.h>

namespace stages {
namespace {

/// Calls `use` for each layer that collects running statistics in training.
template <typename Use>
void for_each_collecting(const torch::nn::Module& network, Use use) {
  for (const auto& module : network.modules()) {
    auto* const layer = dynamic_cast<CollectingLayer*>(module.get());
    if (layer && layer->collects_statistics()) use(*layer);
  }
}

}  // namespace

RunningStatistics running_statistics_of(const torch::nn::Module& network) {
  RunningStatistics found;
  for_each_collecting(network, [&](CollectingLayer&) { found.are_collected = true; });
  for (const auto& module : network.modules()) {
    const bool has_any = module->named_buffers(/*recurse=*/false).contains("running_mean");
    found.has_unknown_layers |= has_any && !dynamic_cast<CollectingLayer*>(module.get());
  }
  return found;
}

ScopedNewStatistics::ScopedNewStatistics(torch::nn::Module& network) : network_(network) {
  for_each_collecting(network_, [](CollectingLayer& layer) { layer.start_averaging(); });
}

ScopedNewStatistics::~ScopedNewStatistics() {
  for_each_collecting(network_, [](CollectingLayer& layer) { layer.stop_averaging(); });
}

}  // namespace stages
