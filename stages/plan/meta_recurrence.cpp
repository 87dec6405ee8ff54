#include <string>
#include <tuple>

#include <ATen/ops/gru_compositeimplicitautograd_dispatch.h>
#include <ATen/ops/rnn_relu_compositeimplicitautograd_dispatch.h>
#include <ATen/ops/rnn_tanh_compositeimplicitautograd_dispatch.h>
#include <torch/library.h>

#include "stages/plan/meta_kernels.h"

namespace stages::meta {
namespace {

using at::Tensor;
using Two = std::tuple<Tensor, Tensor>;
namespace composite = at::compositeimplicitautograd;

/// Fails for a layer with kernels that save more than their results for the backward pass. Then the
/// plan runs real steps.
[[noreturn]] void refuse(const std::string& layer) {
  TORCH_CHECK(false, "a dry run cannot determine how much memory the kernels of ", layer, " need");
}

/// oneDNN and cuDNN have kernels for a whole LSTM.
void refuse_lstm(const c10::OperatorHandle&, torch::jit::Stack*) { refuse("an LSTM"); }

/// Only cuDNN has kernels for other whole layers. On a CPU, torch calls the operators of a cell,
/// as `kernel` does.
template <auto kernel>
struct OnCpu;
template <typename... Arguments, Two (*kernel)(Arguments...)>
struct OnCpu<kernel> {
  static Two run(Arguments... arguments) {
    if (!on_cpu()) refuse("a recurrent layer");
    return kernel(arguments...);
  }
};

/// The signatures for padded sequences and for packed ones.
using Padded = Two(const Tensor&, const Tensor&, at::TensorList, bool, std::int64_t, double, bool,
                   bool, bool);
using Packed = Two(const Tensor&, const Tensor&, const Tensor&, at::TensorList, bool, std::int64_t,
                   double, bool, bool);

}  // namespace

void register_recurrence(torch::Library& meta, torch::Library& above_autograd) {
  for (torch::Library* const library : {&meta, &above_autograd}) {
    for (const char* const name : {"lstm.input", "lstm.data"})
      library->impl(name, torch::CppFunction::makeFromBoxedFunction<&refuse_lstm>());
  }
  above_autograd.impl("gru.input", OnCpu<static_cast<Padded*>(composite::gru)>::run);
  above_autograd.impl("gru.data", OnCpu<static_cast<Packed*>(composite::gru)>::run);
  above_autograd.impl("rnn_tanh.input", OnCpu<static_cast<Padded*>(composite::rnn_tanh)>::run);
  above_autograd.impl("rnn_tanh.data", OnCpu<static_cast<Packed*>(composite::rnn_tanh)>::run);
  above_autograd.impl("rnn_relu.input", OnCpu<static_cast<Padded*>(composite::rnn_relu)>::run);
  above_autograd.impl("rnn_relu.data", OnCpu<static_cast<Packed*>(composite::rnn_relu)>::run);
}

}  // namespace stages::meta
