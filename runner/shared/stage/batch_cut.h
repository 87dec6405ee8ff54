#pragma once

namespace runner {

/// What a loss sees at once; it decides which ways of cutting a batch keep the gradient.
enum class LossCoupling {
  kPerSample,   ///< a sum over samples: any cut is exact
  kPerGroup,    ///< a sum over groups (episodes): cuts between groups are exact
  kWholeBatch,  ///< any function of all embeddings (contrastive): only two passes are exact
};

// The rules by which a batch may be cut into micro-batches. A recipe is held to them before it
// runs, by what the schemas declare, and a training by what its step says.

/// True if a cut would change a loss of such coupling.
constexpr bool is_cut_loss(LossCoupling coupling, bool two_pass) {
  return coupling == LossCoupling::kWholeBatch && !two_pass;
}

/// True if a cut would change what layers that mix the samples of a batch (BatchNorm in training)
/// give. With a loss over groups such layers are run on one group after another, and see no other
/// group in the whole batch either.
constexpr bool are_cut_layers(LossCoupling coupling, bool mixes_samples) {
  return mixes_samples && coupling != LossCoupling::kPerGroup;
}

/// The fewest samples of a batch, or of a part of one: layers that mix them have nothing to
/// normalise a single one by.
constexpr int least_samples(LossCoupling coupling, bool mixes_samples) {
  return are_cut_layers(coupling, mixes_samples) ? 2 : 1;
}

}  // namespace runner
