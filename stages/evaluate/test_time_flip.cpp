#include "stages/evaluate/test_time_flip.h"

#include <vector>

#include <torch/types.h>

namespace stages {

at::Tensor flipped_mean(const NamedTensors& inputs, TestTimeFlip flip,
                        const std::function<at::Tensor(const NamedTensors&)>& logits) {
  std::vector<std::vector<std::int64_t>> mirrors;  // by the dimensions that are turned around
  if (flip == TestTimeFlip::kHorizontal || flip == TestTimeFlip::kBoth) mirrors.push_back({3});
  if (flip == TestTimeFlip::kVertical || flip == TestTimeFlip::kBoth) mirrors.push_back({2});
  if (flip == TestTimeFlip::kBoth) mirrors.push_back({2, 3});
  at::Tensor sum = logits(inputs);
  if (!mirrors.empty()) sum = sum.to(at::promote_types(sum.scalar_type(), at::kFloat));
  for (const auto& dimensions : mirrors) {
    NamedTensors mirrored = inputs;
    mirrored.set("image", inputs.at("image").flip(dimensions));
    sum = sum + logits(mirrored);
  }
  return mirrors.empty() ? sum : sum / static_cast<double>(mirrors.size() + 1);
}

}  // namespace stages
