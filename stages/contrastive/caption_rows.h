#pragma once

#include <cstdint>
#include <vector>

#include "stages/artifact/model.h"
#include "stages/tensor/batch.h"

namespace stages {

struct CaptionRowsOptions {
  bool trims = true;         ///< drop the padding beyond the longest text in a batch
  bool encodes_once = true;  ///< encode equal captions of a batch once, as one row
  std::int64_t within = 0;   ///< share rows only within groups of this many consecutive samples; 0:
                             ///< in the whole batch
};

/// Turns the captions of a batch into the texts that a network reads. A text belongs to the first
/// sample with that caption; samples refer to texts by index.
class CaptionRows {
 public:
  /// `captions` are all captions that samples may have, in index order.
  CaptionRows(TokenizedTexts captions, const CaptionRowsOptions& options);

  /// Arranges a batch with "caption" (n), on the host, as groups of one sample each. Replaces
  /// "caption" with "tokens" (m, length) int64, of which a sample owns one row or none;
  /// "caption_row" (n), the row of each sample's caption in the whole batch; and "equal_caption"
  /// (n), the first row of an equal caption. Samples with equal captions have the same
  /// "equal_caption", even if their captions are not encoded as one row. Adds the tensors of
  /// `extra`, which have one row per sample. If `more` is defined, adds it as "more_tokens"; the
  /// first sample owns all of its rows. On the Meta device, the batch has as many different
  /// captions as possible.
  Batch arranged(const Batch& batch, const NamedTensors& extra = {},
                 const at::Tensor& more = {}) const;
  /// The number of captions that were longer than the network's context length.
  std::size_t cut_captions() const { return captions_.cut.size(); }

 private:
  const TokenizedTexts captions_;
  const CaptionRowsOptions options_;
};

}  // namespace stages
