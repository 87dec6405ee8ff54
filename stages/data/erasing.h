#pragma once

#include <ATen/core/Tensor.h>

#include "stages/data/image.h"
#include "stages/data/transform.h"
#include "stages/random/random.h"

namespace stages {

/// Returns the values that replace `box` in normalized pixels: a single 0, or standard normal
/// values (3, height, width) drawn from `random`.
at::Tensor erasing_values(RandomErasing::Fill fill, const Box& box, Random& random);

/// Replaces `box` in the pixels (3, height, width) with `values`, which are broadcast to it.
void erase(const at::Tensor& pixels, const Box& box, const at::Tensor& values);

}  // namespace stages
