#pragma once

#include <array>
#include <string_view>
#include <utility>

#include <ATen/core/Tensor.h>

namespace stages {

/// The function between the two layers of a block's MLP.
enum class Activation {
  kQuickGelu,  ///< x · sigmoid(1.702 x), as in OpenAI's weights
  kGelu,       ///< x · Φ(x), by the error function
};

/// What recipes and configs call them.
inline constexpr std::array<std::pair<std::string_view, Activation>, 2> kActivations = {
    {{"quick_gelu", Activation::kQuickGelu}, {"gelu", Activation::kGelu}}};
std::string_view name(Activation activation);
/// That of a word in kActivations.
Activation activation_named(std::string_view word);

/// The activation of each element. For the backward pass `x` is kept and nothing else. quick_gelu has the bits of
/// torch's `x * sigmoid(1.702 * x)` on one thread, whatever the number of threads; a gradient of its gradient is
/// refused with std::logic_error.
at::Tensor activate(Activation activation, const at::Tensor& x);

}  // namespace stages
