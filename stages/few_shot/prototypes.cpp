#include "stages/few_shot/prototypes.h"

#include <torch/types.h>

#include "stages/few_shot/model_few_shot_transformer.h"

namespace stages {

at::Tensor prototype_logits(const at::Tensor& supports, const at::Tensor& queries,
                            const PrototypeRule& rule) {
  const auto prepared = [&](const at::Tensor& features) {
    at::Tensor rows = features.to(at::kDouble);
    if (rule.center.defined()) rows = rows - rule.center;
    return rule.distance == PrototypeDistance::kCosine ? directions(rows) : rows;
  };
  const at::Tensor means = prepared(supports.flatten(2)).mean(1),  // (ways, features)
      asked = prepared(queries.flatten(1));
  switch (rule.distance) {
    case PrototypeDistance::kCosine:
      return asked.matmul(directions(means).t()) * rule.scale;
    case PrototypeDistance::kEuclidean:
      return -(asked.unsqueeze(1) - means.unsqueeze(0)).square().sum(2);
  }
  return {};
}

}  // namespace stages
