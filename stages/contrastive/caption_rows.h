#pragma once

#include <cstdint>
#include <vector>

#include "stages/artifact/model.h"
#include "stages/tensor/batch.h"

namespace stages {

struct CaptionRowsOptions {
  bool trims = true;         ///< trim the texts to the longest one of a batch; only padding is cut
  bool encodes_once = true;  ///< encode equal captions of a batch once, as one row
  std::int64_t within = 0;   ///< samples in each run that shares such rows; 0: the whole batch
};

/// Turns the captions of a batch into the texts that a network reads. Each text stands in the part
/// of the batch in which it first occurs; samples refer to it by index.
class CaptionRows {
 public:
  /// `captions`: all captions that samples may have, in the order of their numbers.
  CaptionRows(TokenizedTexts captions, const CaptionRowsOptions& options);

  /// Arranges a batch with "caption" (n), on the host, as groups of one sample each. Replaces
  /// "caption" with "tokens" (m, length) int64, of which a sample owns one row or none;
  /// "caption_row" (n), the row of each sample's caption in the whole batch; and "equal_caption"
  /// (n), the first row of an equal caption. Samples with equal captions have the same
  /// "equal_caption", whether or not these are encoded once. `besides` has additional tensors with
  /// one row per sample. If `more` is defined, it is added as "more_tokens", and the first sample
  /// owns all its rows. On the Meta device the batch has as many different captions as possible.
  Batch arranged(const Batch& batch, const NamedTensors& besides = {},
                 const at::Tensor& more = {}) const;
  /// The number of captions that were longer than the network's context length.
  std::size_t cut_captions() const { return captions_.cut.size(); }

 private:
  const TokenizedTexts captions_;
  const CaptionRowsOptions options_;
};

}  // namespace stages
