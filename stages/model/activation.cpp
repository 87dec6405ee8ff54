#include "stages/model/activation.h"

#include <algorithm>
#include <cassert>
#include <functional>
#include <stdexcept>
#include <vector>

#include <ATen/ScalarOps.h>
#include <torch/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "stages/tensor/parallel.h"

namespace stages {
namespace {

using torch::autograd::AutogradContext, torch::autograd::variable_list;
using Tensors = std::vector<at::Tensor>;

/// Elements of two or three tensors that stay in a core's cache from one operator to the next; with fewer, starting the
/// operators costs more than is gained.
constexpr std::int64_t kPieceElements = 1 << 16;

/// Does `work`, which treats each element alone, to tensors of one type and one shape: on a CPU piece by piece, so that
/// several operators read and write the memory once. Torch computes some elements at the end of each thread's share by
/// other instructions than the rest; pieces do not depend on the threads.
void in_pieces(const Tensors& tensors, const std::function<void(const Tensors&)>& work) {
  const at::Tensor& first = tensors.front();
  const bool lie_alike = std::ranges::all_of(tensors, [&first](const at::Tensor& one) {
    return one.is_non_overlapping_and_dense() && one.strides() == first.strides();
  });
  if (!first.is_cpu() || !lie_alike) return work(tensors);
  const std::int64_t count = first.numel(), pieces = (count + kPieceElements - 1) / kPieceElements;
  parallel_for(pieces, /*grain=*/1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t piece = begin; piece < end; ++piece) {
      const std::int64_t from = piece * kPieceElements;
      Tensors parts;
      for (const at::Tensor& one : tensors) {
        auto* const memory = static_cast<char*>(one.data_ptr()) + from * static_cast<std::int64_t>(one.element_size());
        parts.push_back(at::from_blob(memory, {std::min(kPieceElements, count - from)}, one.options()));
      }
      work(parts);
    }
  });
}

/// x · sigmoid(1.702 x). Composed of operators it would keep x and the sigmoid.
class QuickGelu : public torch::autograd::Function<QuickGelu> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x) {
    context->save_for_backward({x});
    const at::Tensor slope = at::native::wrapped_scalar_tensor(kSlope);
    const at::Tensor y = at::empty_like(x);
    in_pieces({x, y}, [&slope](const Tensors& parts) {
      at::Tensor to = parts[1];
      at::mul_out(to, parts[0], slope);
      to.sigmoid_();
      to.mul_(parts[0]);
    });
    return y;
  }

  /// It is silu(1.702 x) / 1.702, so its derivative is that of silu at 1.702 x.
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    if (torch::GradMode::is_enabled()) throw std::logic_error("quick_gelu has no gradient of its gradient");
    const at::Tensor x = context->get_saved_variables()[0];
    const at::Tensor slope = at::native::wrapped_scalar_tensor(kSlope);
    const at::Tensor dx = at::empty_like(x);
    in_pieces({x, gradients[0], dx}, [&slope](const Tensors& parts) {
      at::Tensor to = parts[2];
      at::mul_out(to, parts[0], slope);
      at::silu_backward_out(to, parts[1], to);
    });
    return {dx};
  }

 private:
  static constexpr double kSlope = 1.702;
};

}  // namespace

std::string_view name(Activation activation) {
  switch (activation) {
    case Activation::kQuickGelu:
      return "quick_gelu";
    case Activation::kGelu:
      return "gelu";
  }
  assert(false);
  return "";
}

Activation activation_named(std::string_view word) {
  const auto* const found = std::ranges::find(kActivations, word, [](const auto& item) { return item.first; });
  assert(found != kActivations.end());
  return found->second;
}

at::Tensor activate(Activation activation, const at::Tensor& x) {
  switch (activation) {
    case Activation::kQuickGelu:
      return QuickGelu::apply(x);
    case Activation::kGelu:
      return torch::gelu(x);
  }
  assert(false);
  return {};
}

}  // namespace stages
