#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <torch/library.h>
#include <torch/types.h>

#include "stages/numerics/precision_map.h"
#include "stages/plan/memory_trace.h"
#include "stages/plan/meta_kernels.h"

namespace stages {
namespace {

// The operators that LibTorch 2.11's autocast casts: on both device types, only on CPUs, and only
// on GPUs. Operators that networks do not use are left out.

/// Operators that run in the half-precision type.
constexpr std::array kHalfEverywhere = {"_convolution.deprecated",
                                        "addbmm",
                                        "addmm",
                                        "baddbmm",
                                        "bmm",
                                        "conv1d",
                                        "conv2d",
                                        "conv3d",
                                        "conv_tbc",
                                        "conv_transpose1d",
                                        "conv_transpose2d.input",
                                        "conv_transpose3d.input",
                                        "linalg_vecdot",
                                        "linear",
                                        "matmul",
                                        "mm",
                                        "prelu",
                                        "scaled_dot_product_attention"};
constexpr std::array kHalfOfCpu = {"_addmm_activation", "conv1d.padding", "conv2d.padding",
                                   "conv3d.padding"};
constexpr std::array kHalfOfGpu = {"_convolution",     "addmv",       "addr",
                                   "chain_matmul",     "convolution", "einsum",
                                   "linalg_multi_dot", "mv"};

/// Operators that run in float32.
constexpr std::array kFloatEverywhere = {"binary_cross_entropy_with_logits",
                                         "cdist",
                                         "cosine_embedding_loss",
                                         "hinge_embedding_loss",
                                         "huber_loss",
                                         "kl_div",
                                         "l1_loss",
                                         "margin_ranking_loss",
                                         "mse_loss",
                                         "multi_margin_loss",
                                         "multilabel_margin_loss",
                                         "nll_loss",
                                         "nll_loss2d",
                                         "poisson_nll_loss",
                                         "prod",
                                         "prod.dim_int",
                                         "smooth_l1_loss",
                                         "soft_margin_loss",
                                         "triplet_margin_loss"};
constexpr std::array kFloatOfCpu = {"adaptive_avg_pool3d", "avg_pool3d",   "binary_cross_entropy",
                                    "cross_entropy_loss",  "grid_sampler", "inverse",
                                    "linalg_inv",          "linalg_solve", "linalg_svd",
                                    "max_pool3d",          "quantile",     "trace"};
constexpr std::array kFloatOfGpu = {"acos",
                                    "asin",
                                    "cosh",
                                    "cosine_similarity",
                                    "cumprod",
                                    "cumsum",
                                    "dist",
                                    "erfinv",
                                    "exp",
                                    "expm1",
                                    "group_norm",
                                    "layer_norm",
                                    "linalg_matrix_norm",
                                    "linalg_vector_norm",
                                    "log",
                                    "log10",
                                    "log1p",
                                    "log2",
                                    "log_softmax.int",
                                    "logsumexp",
                                    "native_layer_norm",
                                    "norm.Scalar",
                                    "norm.ScalarOpt_dim",
                                    "pdist",
                                    "pow.Scalar",
                                    "pow.Tensor_Scalar",
                                    "pow.Tensor_Tensor",
                                    "reciprocal",
                                    "renorm",
                                    "rsqrt",
                                    "sinh",
                                    "softmax.int",
                                    "softplus",
                                    "sum",
                                    "sum.dim_IntList",
                                    "tan"};

/// Operators that run in the widest type of their inputs.
constexpr std::array kWidestOfCpu = {"cat", "index_copy", "stack"};
constexpr std::array kWidestOfGpu = {"addcdiv",     "addcmul",   "atan2",        "bilinear",
                                     "cross",       "dot",       "grid_sampler", "index_put",
                                     "scatter_add", "tensordot", "vdot"};

enum class CastPolicy { kHalf, kFloat, kWidest };

/// The policies for an operator on a CPU and on a GPU; nullopt: none.
struct Policies {
  std::optional<CastPolicy> cpu, gpu;
};

const std::unordered_map<std::string_view, Policies>& table() {
  static const auto policies = [] {
    std::unordered_map<std::string_view, Policies> result;
    const auto on_cpus = [&](std::span<const char* const> names, CastPolicy policy) {
      for (const char* name : names) result[name].cpu = policy;
    };
    const auto on_gpus = [&](std::span<const char* const> names, CastPolicy policy) {
      for (const char* name : names) result[name].gpu = policy;
    };
    on_cpus(kHalfEverywhere, CastPolicy::kHalf);
    on_gpus(kHalfEverywhere, CastPolicy::kHalf);
    on_cpus(kHalfOfCpu, CastPolicy::kHalf);
    on_gpus(kHalfOfGpu, CastPolicy::kHalf);
    on_cpus(kFloatEverywhere, CastPolicy::kFloat);
    on_gpus(kFloatEverywhere, CastPolicy::kFloat);
    on_cpus(kFloatOfCpu, CastPolicy::kFloat);
    on_gpus(kFloatOfGpu, CastPolicy::kFloat);
    on_cpus(kWidestOfCpu, CastPolicy::kWidest);
    on_gpus(kWidestOfGpu, CastPolicy::kWidest);
    return result;
  }();
  return policies;
}

struct Cast {
  c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>
      weight;  // keeps the address from being reused
  at::Tensor cast;
};
/// Cached casts of weights, in the order of their creation. They are freed in that order, so a
/// trace does not depend on addresses.
class WeightCasts {
 public:
  const at::Tensor* find(const at::Tensor& weight) const {
    const auto place = places_.find(weight.unsafeGetTensorImpl());
    return place == places_.end() ? nullptr : &casts_[place->second].cast;
  }
  void add(const at::Tensor& weight, const at::Tensor& cast) {
    places_.emplace(weight.unsafeGetTensorImpl(), casts_.size());
    casts_.push_back({decltype(Cast::weight)(weight.getIntrusivePtr()), cast});
  }
  void clear() {
    places_.clear();
    for (Cast& each : casts_) each.cast.reset();
    casts_.clear();
  }

 private:
  std::unordered_map<c10::TensorImpl*, std::size_t> places_;
  std::vector<Cast> casts_;
};

WeightCasts& casts_of_thread() {
  thread_local WeightCasts casts;
  return casts;
}

bool is_castable(const at::Tensor& x) {
  return x.defined() && x.is_meta() && x.is_floating_point() && x.scalar_type() != at::kDouble;
}

/// Casts `x` to `to` if needed. The cast of a trained leaf is cached, so each weight is cast once;
/// casts of frozen weights are not cached.
at::Tensor cast(const at::Tensor& x, at::ScalarType to) {
  if (!is_castable(x) || x.scalar_type() == to) return x;
  const bool is_weight = to == meta_autocast().half && x.scalar_type() == at::kFloat &&
                         x.requires_grad() && x.is_leaf() && !x.is_view();
  if (!is_weight) return x.to(to);
  auto& casts = casts_of_thread();
  if (const at::Tensor* found = casts.find(x)) return *found;
  at::Tensor result = x.to(to);
  mark_cast(result);
  casts.add(x, result);
  return result;
}

template <typename Look>
void for_each_tensor(c10::IValue& value, Look look) {
  if (value.isTensor()) {
    value = look(value.toTensor());
  } else if (value.isTensorList()) {
    c10::List<at::Tensor> result;
    for (const at::Tensor& tensor : value.toTensorVector()) result.push_back(look(tensor));
    value = std::move(result);
  }
}

at::ScalarType type_for(CastPolicy policy, at::ArrayRef<c10::IValue> arguments) {
  if (policy == CastPolicy::kHalf) return meta_autocast().half;
  if (policy == CastPolicy::kFloat) return at::kFloat;
  at::ScalarType widest = meta_autocast().half;
  for (c10::IValue argument : arguments) {
    for_each_tensor(argument, [&](const at::Tensor& x) {
      if (is_castable(x)) widest = at::promote_types(widest, x.scalar_type());
      return x;
    });
  }
  return widest;
}

void run_cast(const c10::OperatorHandle& operation, c10::DispatchKeySet keys,
              torch::jit::Stack* stack) {
  const auto& [name, overload] = operation.operator_name();
  const std::string full =
      name.substr(name.find("::") + 2) + (overload.empty() ? "" : "." + overload);
  const Policies& policies = table().at(full);
  const std::optional<CastPolicy> policy = meta::on_cpu() ? policies.cpu : policies.gpu;
  const c10::impl::ExcludeDispatchKeyGuard within(kMetaAutocastKey);
  if (policy) {
    const std::size_t count = operation.schema().arguments().size();
    const auto arguments = torch::jit::last(*stack, count);
    const at::ScalarType to = type_for(*policy, arguments);
    // In reverse order, since the compiler that built LibTorch evaluates arguments in this order.
    for (std::size_t i = count; i-- > 0;)
      for_each_tensor(*(stack->end() - static_cast<std::ptrdiff_t>(count - i)),
                      [&](const at::Tensor& x) { return cast(x, to); });
  }
  operation.redispatchBoxed(
      keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kMetaAutocastKey), stack);
}

}  // namespace

namespace meta {

void register_autocast(torch::Library& casting, torch::Library& others) {
  set_meta_cast_keeper([] { casts_of_thread().clear(); });
  others.fallback(torch::CppFunction::makeFallthrough());
  for (const auto& [name, policies] : table())
    casting.impl(std::string(name).c_str(), torch::CppFunction::makeFromBoxedFunction<&run_cast>());
}

}  // namespace meta
}  // namespace stages
