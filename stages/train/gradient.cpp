#include "stages/train/gradient.h"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <vector>

#include <torch/torch.h>

#include "stages/precision_module.h"

namespace stages {
namespace {

/// What dropout knows the samples of a part by, which begins at unit `begin` of its batch. The groups of a divided
/// batch have other rows in every tensor, and no names.
std::vector<std::int64_t> sample_numbers(const Batch& part, std::int64_t begin) {
  if (part.grouped() || !part.indices.empty()) return part.indices;
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(part.units()));
  std::iota(numbers.begin(), numbers.end(), begin);
  return numbers;
}

}  // namespace

StepNumbers accumulate_gradient(const TrainingStep& step, torch::nn::Module& network, const Batch& batch, double weight,
                                const StepPlan& plan, const StepKey& key, const std::optional<at::Tensor>& scale,
                                const std::function<void()>& before_part) {
  const std::int64_t size = plan.micro_batch > 0 ? plan.micro_batch : batch.units();
  const ScopedPrecisionMap modules(network, plan.numerics.precision, batch.device());
  StepNumbers numbers(weight);
  for (std::int64_t begin = 0; begin < batch.units(); begin += size) {
    if (before_part) before_part();
    const bool whole = size >= batch.units();
    const Batch part = whole ? batch : batch.part(begin, std::min(begin + size, batch.units()));
    const ScopedDropout dropout(network, key, sample_numbers(part, begin));
    at::Tensor total;
    {
      const ScopedPrecision precision(plan.numerics.precision.base, part.device());
      const NamedTensors encoded = taken_in(plan.numerics.precision.base, step.encode(network, part));
      const NamedTensors terms = step.loss(encoded, part);
      numbers.add(terms, step.score(encoded, part));
      for (const auto& [name, term] : terms) total = total.defined() ? total + term : term;
    }
    assert(total.defined());
    total = total / weight;
    (scale ? total * *scale : total).backward();
  }
  return numbers;
}

}  // namespace stages
