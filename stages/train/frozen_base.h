#pragma once

namespace torch::nn {
class Module;
}

namespace stages {

struct TrainingState;

/// Throws runner::StageError, kChangedRun, where the frozen weights of a network (OnFrozenBase) are not those that
/// `state` was trained on.
void check_base(const torch::nn::Module& network, const TrainingState& state);

}  // namespace stages
