#include "stages/data/erasing.h"

#include <cstdint>

#include <torch/types.h>

#include "stages/random/distributions.h"

namespace stages {

at::Tensor erasing_values(RandomErasing::Fill fill, const Box& box, Random& random) {
  if (fill == RandomErasing::Fill::kMean) return torch::zeros({});
  const auto uniform = [&random] { return random.uniform() + 0x1.0p-54; };
  at::Tensor noise = torch::empty({3, box.height, box.width});
  auto* const numbers = noise.mutable_data_ptr<float>();
  for (std::int64_t i = 0; i < noise.numel(); ++i)
    numbers[i] = static_cast<float>(draw_normal(uniform));
  return noise;
}

void erase(const at::Tensor& pixels, const Box& box, const at::Tensor& values) {
  pixels.narrow(1, box.top, box.height).narrow(2, box.left, box.width).copy_(values);
}

}  // namespace stages
