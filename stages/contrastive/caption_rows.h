#pragma once

#include <cstdint>
#include <vector>

#include "stages/artifact/model.h"
#include "stages/tensor/batch.h"

namespace stages {

struct CaptionRowsOptions {
  bool trims = true;         ///< texts to the longest one of a batch; what is cut is padding
  bool encodes_once = true;  ///< equal captions of a batch have one row
  std::int64_t within = 0;   ///< so many samples after another share such a row; 0: the whole batch
};

/// How the captions of a batch become the texts that a network reads: each stands in the part of
/// the batch that it occurs in first, and samples point to it.
class CaptionRows {
 public:
  /// `captions`: those that samples may have, in the order of their numbers.
  CaptionRows(TokenizedTexts captions, const CaptionRowsOptions& options);

  /// A batch with "caption" (n), on the host, as groups of one sample each: in place of "caption"
  /// it has "tokens" (m, length) int64, of which a sample owns one row or none, "caption_row" (n),
  /// the row of each sample's caption in the whole batch, and "equal_caption" (n), the first row of
  /// an equal caption there: samples with equal captions have the same one, whether these are
  /// encoded once or not. `besides` has more tensors, of a row a sample; the first sample owns all
  /// rows of `more`, where that is defined, as "more_tokens". On the Meta device there are as many
  /// different captions as may be.
  Batch arranged(const Batch& batch, const NamedTensors& besides = {},
                 const at::Tensor& more = {}) const;
  /// How many captions were longer than the network takes.
  std::size_t cut_captions() const { return captions_.cut.size(); }

 private:
  const TokenizedTexts captions_;
  const CaptionRowsOptions options_;
};

}  // namespace stages
