#pragma once

#include <ATen/core/Tensor.h>

namespace stages {

/// The sum over samples of the cross-entropy between `logits` (n, classes) and `labels` (n) int64, a scalar with graph.
/// With label smoothing e the target is 1 - e on the label plus e / classes everywhere, as in torch (Szegedy and
/// others, "Rethinking the Inception Architecture", 2016). Labels must be in range.
at::Tensor cross_entropy_sum(const at::Tensor& logits, const at::Tensor& labels, double label_smoothing);

/// How many samples have their largest logit at their label, a scalar without graph.
at::Tensor correct_count(const at::Tensor& logits, const at::Tensor& labels);

}  // namespace stages
