#pragma once

namespace runner {

/// Which samples a loss combines. This determines which ways of splitting a batch preserve the
/// gradient.
enum class LossCoupling {
  kPerSample,   ///< a sum over samples: any split is exact
  kPerGroup,    ///< a sum over groups (episodes): splits between groups are exact
  kWholeBatch,  ///< any function of all embeddings (contrastive): only two passes are exact
};

// The rules for splitting a batch into micro-batches. They are checked before a recipe runs,
// against the declarations in the schemas, and again during training, against those of the training
// step.

/// True if a split would change a loss with this coupling.
constexpr bool is_cut_loss(LossCoupling coupling, bool two_pass) {
  return coupling == LossCoupling::kWholeBatch && !two_pass;
}

/// True if a split would change the output of layers that mix the samples of a batch (BatchNorm in
/// training mode). With a loss over groups, these layers run on one group at a time, so a split
/// between groups changes nothing.
constexpr bool are_cut_layers(LossCoupling coupling, bool mixes_samples) {
  return mixes_samples && coupling != LossCoupling::kPerGroup;
}

/// Returns the minimum number of samples in a batch or micro-batch. Layers that mix samples cannot
/// normalize a single sample.
constexpr int least_samples(LossCoupling coupling, bool mixes_samples) {
  return are_cut_layers(coupling, mixes_samples) ? 2 : 1;
}

}  // namespace runner
