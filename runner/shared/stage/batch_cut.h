#pragma once

namespace runner {

/// Which samples a loss combines; decides which ways of splitting a batch keep the gradient.
enum class LossCoupling {
  kPerSample,   ///< a sum over samples: any split is exact
  kPerGroup,    ///< a sum over groups (episodes): splits between groups are exact
  kWholeBatch,  ///< any function of all embeddings (contrastive): only two passes are exact
};

// The rules by which a batch may be split into micro-batches. They are checked before a recipe
// runs, against what the schemas declare, and in training, against what the training step declares.

/// True if a split would change a loss of this coupling.
constexpr bool is_cut_loss(LossCoupling coupling, bool two_pass) {
  return coupling == LossCoupling::kWholeBatch && !two_pass;
}

/// True if a split would change the output of layers that mix the samples of a batch (BatchNorm in
/// training mode). With a loss over groups such layers run on one group after another, so they
/// never see another group, even in the whole batch.
constexpr bool are_cut_layers(LossCoupling coupling, bool mixes_samples) {
  return mixes_samples && coupling != LossCoupling::kPerGroup;
}

/// The minimum number of samples in a batch or a part of one: layers that mix samples cannot
/// normalise a single one.
constexpr int least_samples(LossCoupling coupling, bool mixes_samples) {
  return are_cut_layers(coupling, mixes_samples) ? 2 : 1;
}

}  // namespace runner
