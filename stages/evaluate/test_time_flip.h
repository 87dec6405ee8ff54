#pragma once

#include <array>
#include <functional>
#include <string_view>
#include <utility>

#include <ATen/core/Tensor.h>

#include "stages/tensor/named_tensors.h"

namespace stages {

/// In which mirrors an image is looked at besides itself.
enum class TestTimeFlip { kNone, kHorizontal, kVertical, kBoth };

/// As recipes, flags and requests write them.
inline constexpr std::array<std::pair<std::string_view, TestTimeFlip>, 4> kTestTimeFlips = {
    {{"none", TestTimeFlip::kNone},
     {"horizontal", TestTimeFlip::kHorizontal},
     {"vertical", TestTimeFlip::kVertical},
     {"both", TestTimeFlip::kBoth}}};

/// The mean of what `logits` says of each row of `inputs` and of its mirrors, in which "image" (n, channels, height,
/// width) is turned around.
at::Tensor flipped_mean(const NamedTensors& inputs, TestTimeFlip flip,
                        const std::function<at::Tensor(const NamedTensors&)>& logits);

}  // namespace stages
