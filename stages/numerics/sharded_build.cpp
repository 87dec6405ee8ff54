#include "stages/numerics/sharded_build.h"

#include <torch/nn/module.h>

#include "stages/tensor/tensor_memory.h"

namespace stages {
namespace {

thread_local const ScopedShardedBuild* innermost_build = nullptr;

}  // namespace

ScopedShardedBuild::ScopedShardedBuild(std::set<std::string> elsewhere)
    : elsewhere_(std::move(elsewhere)), before_(std::exchange(innermost_build, this)) {}

ScopedShardedBuild::~ScopedShardedBuild() { innermost_build = before_; }

ScopedWholeBuild::ScopedWholeBuild() : before_(std::exchange(innermost_build, nullptr)) {}

ScopedWholeBuild::~ScopedWholeBuild() { innermost_build = before_; }

void free_in_sharded_build(const torch::nn::Module& block) {
  if (!innermost_build) return;
  for (const at::Tensor& weight : block.parameters()) {
    if (fills_its_storage(weight)) free_memory(weight);
  }
}

void allocate_own_weights(const torch::nn::Module& network) {
  if (!innermost_build) return;
  for (const auto& item : network.named_parameters()) {
    const at::Tensor& weight = item.value();
    if (!innermost_build->elsewhere_.contains(item.key())) {
      if (!has_memory(weight)) allocate_memory(weight);
    } else if (fills_its_storage(weight)) {
      free_memory(weight);
    }
  }
}

}  // namespace stages
