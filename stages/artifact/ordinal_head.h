#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include <ATen/core/Tensor.h>

namespace stages {

/// How the outputs of a classifier represent ordered classes. An ordinal head has one output fewer
/// than there are classes.
enum class OrdinalHead {
  kNone,   ///< the classes have no order: one logit for each class
  kCoral,  ///< output k is the logit of P(class > k); all outputs share their weights (Cao,
           ///< Mirjalili and Raschka 2020, arXiv:1901.07884)
  kCorn,   ///< output k is the logit of P(class > k | class >= k) (Shi, Cao and Raschka 2021,
           ///< arXiv:2111.08851)
};

/// Returns "coral", "corn" or "".
std::string_view name_of(OrdinalHead head);
/// Returns the head with that name; nullopt if there is none.
std::optional<OrdinalHead> ordinal_head_named(std::string_view name);

/// Returns the logits of the classes (n, classes) for the outputs of a network with this head: the
/// log probabilities of the classes, in float32 or wider, so that their softmax yields the
/// probabilities. Probabilities below the smallest normal number are raised to it. A row with an
/// output that is not finite becomes NaN. Returns the outputs unchanged for kNone.
///
/// CORAL's probabilities P(class > k) need not decrease with k if training has not ordered the
/// biases. They are then sorted (Chernozhukov, Fernández-Val and Galichon 2010, arXiv:0704.3649),
/// which leaves predicted_ranks() unchanged.
at::Tensor class_logits(const at::Tensor& outputs, OrdinalHead head);

/// Returns the predicted class of each row of the outputs, as int64 of shape (n): the number of
/// classes k with P(class > k) > 0.5, as in coral-pytorch. For kNone, returns the class with the
/// largest logit.
at::Tensor predicted_ranks(const at::Tensor& outputs, OrdinalHead head);

}  // namespace stages
