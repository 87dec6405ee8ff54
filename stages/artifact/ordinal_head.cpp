#include "stages/artifact/ordinal_head.h"

#include <cassert>
#include <cmath>
#include <limits>

#include <torch/types.h>

namespace stages {
namespace {

constexpr std::string_view kCoralName = "coral", kCornName = "corn";

at::Tensor at_least_float32(const at::Tensor& outputs) {
  return outputs.to(at::promote_types(outputs.scalar_type(), at::kFloat));
}

/// Returns log P(class > k) for the conditional logits of CORN.
at::Tensor log_above(const at::Tensor& outputs) { return at::log_sigmoid(outputs).cumsum(1); }

/// For the logits a >= b of two neighbors, the difference of their probabilities is sigmoid(a)
/// sigmoid(-b) (1 - exp(b - a)), which avoids cancellation.
at::Tensor coral_logits(const at::Tensor& outputs) {
  const at::Tensor sorted = std::get<0>(outputs.sort(/*dim=*/1, /*descending=*/true));
  const std::int64_t last = sorted.size(1) - 1;
  const at::Tensor above = sorted.narrow(1, 0, last), below = sorted.narrow(1, 1, last);
  const at::Tensor between =
      at::log_sigmoid(above) + at::log_sigmoid(-below) + (-(below - above).expm1()).log();
  return torch::cat({at::log_sigmoid(-sorted.narrow(1, 0, 1)), between,
                     at::log_sigmoid(sorted.narrow(1, last, 1))},
                    1);
}

at::Tensor corn_logits(const at::Tensor& outputs) {
  const at::Tensor above = log_above(outputs), stops = at::log_sigmoid(-outputs);
  const std::int64_t last = outputs.size(1) - 1;
  return torch::cat({stops.narrow(1, 0, 1), above.narrow(1, 0, last) + stops.narrow(1, 1, last),
                     above.narrow(1, last, 1)},
                    1);
}

}  // namespace

std::string_view name_of(OrdinalHead head) {
  switch (head) {
    case OrdinalHead::kNone:
      return "";
    case OrdinalHead::kCoral:
      return kCoralName;
    case OrdinalHead::kCorn:
      return kCornName;
  }
  assert(false);
  return "";
}

std::optional<OrdinalHead> ordinal_head_named(std::string_view name) {
  if (name == kCoralName) return OrdinalHead::kCoral;
  if (name == kCornName) return OrdinalHead::kCorn;
  return std::nullopt;
}

at::Tensor class_logits(const at::Tensor& outputs, OrdinalHead head) {
  if (head == OrdinalHead::kNone) return outputs;
  const at::Tensor exact = at_least_float32(outputs);
  const at::Tensor logits = head == OrdinalHead::kCoral ? coral_logits(exact) : corn_logits(exact);
  const double least = std::log(static_cast<double>(std::numeric_limits<float>::min()));
  const at::Tensor is_broken = exact.isfinite().logical_not().any(1, /*keepdim=*/true);
  return logits.clamp_min(least).masked_fill(is_broken, std::numeric_limits<double>::quiet_NaN());
}

at::Tensor predicted_ranks(const at::Tensor& outputs, OrdinalHead head) {
  const at::Tensor seen = outputs.detach();
  if (head == OrdinalHead::kNone) return seen.argmax(1);
  if (head == OrdinalHead::kCoral) return seen.gt(0).sum(1);
  return log_above(at_least_float32(seen)).gt(std::log(0.5)).sum(1);
}

}  // namespace stages
