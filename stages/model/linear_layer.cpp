#include "stages/model/linear_layer.h"

#include <cassert>
#include <stdexcept>
#include <string_view>
#include <vector>

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "stages/numerics/precision_map.h"
#include "stages/plan/memory_trace.h"
#include "stages/plan/meta_kernels.h"

namespace stages {
namespace {

using torch::autograd::AutogradContext, torch::autograd::variable_list;
using MaybeTensor = std::optional<at::Tensor>;

/// Smaller products are not faster with oneDNN, which looks up its kernel each time.
constexpr std::int64_t kLeastProducts = std::int64_t{1} << 24;

/// Returns the processor that computes with `x`: this machine's, or the planned one.
const Processor& processor_for(const at::Tensor& x) {
  return x.is_meta() && traced_backend() ? traced_backend()->processor : this_processor();
}

/// True if oneDNN multiplies `x` (rows, in) by `weight` (out, in).
bool is_for_onednn(const at::Tensor& x, const at::Tensor& weight) {
  return x.scalar_type() == at::kFloat && x.is_contiguous() &&
         x.numel() * weight.size(0) >= kLeastProducts && processor_for(x).onednn_multiplies &&
         at::globalContext().userEnabledMkldnn();
}

/// Computes x Wᵀ + b with oneDNN.
at::Tensor onednn_product(const at::Tensor& x, const at::Tensor& weight, const MaybeTensor& bias) {
  using Operation =
      at::Tensor(const at::Tensor&, const at::Tensor&, const MaybeTensor&, std::string_view,
                 c10::List<std::optional<at::Scalar>>, std::optional<std::string_view>);
  static const auto operation = c10::Dispatcher::singleton()
                                    .findSchemaOrThrow("mkldnn::_linear_pointwise", "")
                                    .typed<Operation>();
  return operation.call(x, weight, bias, "none", c10::List<std::optional<at::Scalar>>(), "");
}

/// Records the temporary memory of oneDNN's kernel in the plan that is being traced.
void note_scratch(const at::Tensor& x) {
  const meta::ProductShape shape = {.rows = x.size(0), .inner = x.size(1)};
  const std::int64_t bytes = meta::float_product_scratch(shape, traced_backend()->threads);
  mark_scratch(at::empty({bytes}, x.options().dtype(at::kByte)));
}

/// Computes x Wᵀ + b for `x` (rows, in) and `weight` (out, in).
at::Tensor product(const at::Tensor& x, const at::Tensor& weight, const MaybeTensor& bias) {
  const bool is_onednns = is_for_onednn(x, weight);
  if (is_onednns && x.is_cpu()) return onednn_product(x, weight, bias);
  at::Tensor y = at::linear(x, weight, bias);
  if (is_onednns && traced_backend()) note_scratch(x);
  return y;
}

/// Computes dy W, the gradient of x. Reading the weight transposed needs no scratch memory.
at::Tensor input_gradient(const at::Tensor& dy, const at::Tensor& weight) {
  const at::Tensor turned = weight.t();
  return dy.is_cpu() && is_for_onednn(dy, turned) ? onednn_product(dy, turned, {}) : dy.mm(weight);
}

/// Flattens all dimensions but the last; returns a view if possible.
at::Tensor in_rows(const at::Tensor& x) { return x.dim() == 2 ? x : x.reshape({-1, x.size(-1)}); }

/// Returns `rows` in the shape of `like`, except for the last dimension.
at::Tensor shaped(const at::Tensor& rows, const at::Tensor& like) {
  if (like.dim() == 2) return rows;
  std::vector<std::int64_t> shape = like.sizes().vec();
  shape.back() = rows.size(1);
  return rows.view(shape);
}

at::Tensor if_needed(bool is_needed, const at::Tensor& tensor) {
  return is_needed ? tensor : at::Tensor();
}

/// Without a graph, reshaped tensors are not recorded as views, so autograd may add to them in
/// place.
using NoViews = at::AutoDispatchBelowADInplaceOrView;

class LinearFunction : public torch::autograd::Function<LinearFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const MaybeTensor& bias) {
    const NoViews no_views;
    context->saved_data["has_bias"] = bias.has_value();
    context->save_for_backward(
        {if_needed(weight.requires_grad(), x), if_needed(x.requires_grad(), weight)});
    return shaped(product(in_rows(x), weight, bias), x);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const bool has_graph = torch::GradMode::is_enabled();
    std::optional<NoViews> no_views;
    if (!has_graph) no_views.emplace();
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], dy = in_rows(gradients[0]);
    variable_list result(3);
    if (context->needs_input_grad(0)) {
      result[0] = shaped(has_graph ? dy.mm(weight) : input_gradient(dy, weight), gradients[0]);
    }
    if (context->needs_input_grad(1)) result[1] = dy.t().mm(in_rows(x));
    if (context->saved_data.at("has_bias").toBool() && context->needs_input_grad(2))
      result[2] = dy.sum(0);
    return result;
  }
};

class AdaptedLinearFunction : public torch::autograd::Function<AdaptedLinearFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& a, const at::Tensor& b, const MaybeTensor& bias,
                            double scaling) {
    const NoViews no_views;
    context->saved_data["has_bias"] = bias.has_value();
    at::Tensor y = product(in_rows(x), weight, bias);
    // Scales the narrow tensor, not the wide one.
    const at::Tensor narrow = at::linear(in_rows(x), a).mul_(scaling);
    y.addmm_(narrow, b.t());
    context->save_for_backward({if_needed(weight.requires_grad() || a.requires_grad(), x),
                                if_needed(b.requires_grad(), narrow),
                                if_needed(x.requires_grad(), weight), a, b});
    context->saved_data["scaling"] = scaling;
    return shaped(y, x);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    if (torch::GradMode::is_enabled())
      throw std::logic_error("an adapted layer does not support double backward");
    const NoViews no_views;
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &narrow = saved[1], &weight = saved[2], &a = saved[3],
                     &b = saved[4], dy = in_rows(gradients[0]);
    const bool needs_x = context->needs_input_grad(0), needs_a = context->needs_input_grad(2);
    at::Tensor by_narrow;
    if (needs_x || needs_a) by_narrow = dy.mm(b).mul_(context->saved_data.at("scaling").toDouble());
    variable_list result(6);
    if (needs_x) result[0] = shaped(input_gradient(dy, weight).addmm_(by_narrow, a), gradients[0]);
    if (context->needs_input_grad(1)) result[1] = dy.t().mm(in_rows(x));
    if (needs_a) result[2] = by_narrow.t().mm(in_rows(x));
    if (context->needs_input_grad(3)) result[3] = dy.t().mm(narrow);
    if (context->saved_data.at("has_bias").toBool() && context->needs_input_grad(4))
      result[4] = dy.sum(0);
    return result;
  }
};

/// True if the functions above support these tensors.
bool is_ours(const at::Tensor& x, const at::Tensor& weight) {
  const at::ScalarType type = x.scalar_type();
  return (type == at::kFloat || type == at::kDouble) && weight.scalar_type() == type &&
         is_on_cpu(x) && current_precision(x.device()) == Precision::kFp32;
}

}  // namespace

bool is_on_cpu(const at::Tensor& x) {
  if (!x.is_meta()) return x.is_cpu();
  return !traced_backend() || traced_backend()->device == at::kCPU;
}

bool has_torch_product(const at::Tensor& x, const at::Tensor& weight) {
  return is_ours(x, weight) && !is_for_onednn(x, weight);
}

bool takes_adapter(const at::Tensor& x, const at::Tensor& weight, at::ScalarType adapter) {
  return is_ours(x, weight) && adapter == x.scalar_type();
}

at::Tensor linear_layer(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                        const std::optional<LowRank>& adapter) {
  assert(!adapter || takes_adapter(x, weight, adapter->a.scalar_type()));
  if (!is_ours(x, weight)) return torch::linear(x, weight, bias);
  const MaybeTensor maybe_bias = bias.defined() ? MaybeTensor(bias) : std::nullopt;
  if (!adapter) return LinearFunction::apply(x, weight, maybe_bias);
  return AdaptedLinearFunction::apply(x, weight, adapter->a, adapter->b, maybe_bias,
                                      adapter->scaling);
}

}  // namespace stages
