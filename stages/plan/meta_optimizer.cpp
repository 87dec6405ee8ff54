#include <torch/types.h>

#include "stages/plan/meta_families.h"

namespace stages::meta {
namespace {

/// Works in place and allocates nothing. Boxed, because the overloads differ in the type of the rate alone.
void write_in_place(const c10::OperatorHandle& operation, torch::jit::Stack* stack) {
  torch::jit::drop(*stack, operation.schema().arguments().size());
}

}  // namespace

void register_optimizers(torch::Library& meta) {
  for (const char* name :
       {"_fused_sgd_", "_fused_sgd_.tensor_lr", "_fused_adam_", "_fused_adam_.tensor_lr", "_fused_adamw_",
        "_fused_adamw_.tensor_lr", "_fused_adagrad_", "_amp_foreach_non_finite_check_and_unscale_"}) {
    meta.impl(name, torch::CppFunction::makeFromBoxedFunction<&write_in_place>());
  }
}

}  // namespace stages::meta
