#include <algorithm>
#include <array>
#include <tuple>

#include <ATen/ops/convolution_backward_compositeexplicitautograd_dispatch.h>
#include <ATen/ops/convolution_compositeexplicitautograd_dispatch.h>
#include <torch/types.h>

#include "stages/plan/convolution_bound.h"
#include "stages/plan/gpu_scratch.h"
#include "stages/plan/memory_trace.h"
#include "stages/plan/meta_kernels.h"

namespace stages::meta {
namespace {

using at::IntArrayRef;
using at::Tensor;
using Three = std::tuple<Tensor, Tensor, Tensor>;

std::vector<std::int64_t> result_shape(const Tensor& x, const Tensor& weight, IntArrayRef stride,
                                       IntArrayRef padding, IntArrayRef dilation, bool transposed,
                                       IntArrayRef output_padding, std::int64_t groups) {
  std::vector<std::int64_t> shape = {x.size(0),
                                     transposed ? weight.size(1) * groups : weight.size(0)};
  for (std::size_t i = 0; i < stride.size(); ++i) {
    const auto dimension = static_cast<std::int64_t>(i) + 2;
    const std::int64_t reach = dilation[i] * (weight.size(dimension) - 1), in = x.size(dimension);
    shape.push_back(transposed
                        ? (in - 1) * stride[i] - 2 * padding[i] + reach + output_padding[i] + 1
                        : (in + 2 * padding[i] - reach - 1) / stride[i] + 1);
  }
  return shape;
}

double product_flops(const Tensor& x, const Tensor& y, const Tensor& weight, bool transposed) {
  return 2.0 * static_cast<double>((transposed ? x : y).numel()) *
         static_cast<double>(weight.numel() / weight.size(0));
}

at::MemoryFormat format_of(const Tensor& x, const Tensor& weight) {
  const at::MemoryFormat format = x.suggest_memory_format();
  return format == at::MemoryFormat::Contiguous ? weight.suggest_memory_format() : format;
}

/// Returns the shape of a two-dimensional convolution; nullopt for any other, since nothing is
/// known about its kernels.
std::optional<ConvolutionShape> shape_of(const Tensor& x, const Tensor& weight, IntArrayRef result,
                                         IntArrayRef stride, IntArrayRef padding,
                                         IntArrayRef dilation, bool transposed, std::int64_t groups,
                                         at::MemoryFormat format) {
  if (transposed || x.dim() != 4) return {};
  return ConvolutionShape{.batch = x.size(0),
                          .in = x.size(1),
                          .out = result[1],
                          .groups = groups,
                          .kernel_height = weight.size(2),
                          .kernel_width = weight.size(3),
                          .stride = *std::max_element(stride.begin(), stride.end()),
                          .padding = *std::max_element(padding.begin(), padding.end()),
                          .dilation = *std::max_element(dilation.begin(), dilation.end()),
                          .in_height = x.size(2),
                          .in_width = x.size(3),
                          .out_height = result[2],
                          .out_width = result[3],
                          .element_bytes = static_cast<std::int64_t>(x.element_size()),
                          .channels_last = format == at::MemoryFormat::ChannelsLast,
                          .threads = threads(),
                          .unfolds_images = unfolds_images()};
}

/// True if torch uses oneDNN for the convolution; otherwise it multiplies unfolded images itself.
bool takes_onednn(const ConvolutionShape& shape, const Tensor& x) {
  return onednn_computes(x.scalar_type()) && (is_half(x) || meta::takes_onednn(shape));
}

/// Temporary memory for a kernel, in elements of the type of `x` or in bytes.
Tensor kernel_memory(std::int64_t elements, const Tensor& x) {
  return scratch({elements}, x.options());
}
Tensor kernel_bytes(std::int64_t bytes, const Tensor& x) {
  return scratch({bytes}, x.options().dtype(at::kByte));
}

Tensor onednn_convolution(const ConvolutionShape& shape, const Tensor& x, IntArrayRef sizes,
                          at::MemoryFormat format) {
  Tensor y;
  if (!shape.may_be_copied()) y = at::empty(sizes, x.options(), format);
  const Tensor y_copy = kernel_bytes(blocked_result(shape), x);
  {
    const Tensor x_copy = kernel_bytes(blocked_input(shape), x),
                 weight_copy = kernel_bytes(blocked_weight(shape), x),
                 own = kernel_bytes(forward_scratch(shape), x);
  }
  return y.defined() ? y : at::empty(sizes, x.options(), format);
}

Tensor onednn_input_gradient(const ConvolutionShape& shape, const Tensor& x,
                             at::MemoryFormat format) {
  Tensor dx;
  if (!shape.may_be_copied()) dx = at::empty_like(x, format);
  Tensor dx_copy;
  {
    const Tensor dy_copy = kernel_bytes(blocked_result(shape), x),
                 weight_copy = kernel_bytes(blocked_weight(shape), x);
    dx_copy = kernel_bytes(blocked_input_gradient(shape), x);
    const Tensor own = kernel_bytes(input_gradient_scratch(shape), x);
  }
  if (!dx.defined()) dx = at::empty_like(x, format);
  // With a stride, the result may be in the kernel's own memory order.
  const Tensor turned =
      shape.stride > 1 ? kernel_bytes(blocked_input_gradient(shape), x) : Tensor();
  return dx;
}

Tensor onednn_weight_gradient(const ConvolutionShape& shape, const Tensor& x, const Tensor& weight,
                              at::MemoryFormat format) {
  const auto turned = [&] { return kernel_memory(shape.weight_elements(), x); };
  Tensor dweight_copy, dweight;
  {
    const Tensor x_copy = kernel_bytes(blocked_input(shape), x),
                 dy_copy = kernel_bytes(blocked_result(shape), x);
    dweight_copy = kernel_bytes(blocked_weight_gradient(shape), x);
    const Tensor own = kernel_bytes(weight_gradient_scratch(shape), x);
    if (shape.has_two_layouts()) {
      // oneDNN may take the images for channels_last ones. Then the copy is reordered twice, the
      // first time while the kernel's memory is still in use.
      dweight = at::empty_like(weight, format);
      turned();
      return dweight;
    }
  }
  dweight = at::empty_like(weight, format);
  if (shape.channels_last) turned();
  return dweight;
}

/// Returns the memory for the images unfolded by torch's own kernels: all at once, or one after
/// another if the kernel is dilated.
Tensor unfolded_images(const ConvolutionShape& shape, const Tensor& x) {
  if (shape.dilation > 1) return kernel_memory(shape.unfolded_elements(), x);
  if (shape.is_pointwise() && shape.stride == 1 && shape.padding == 0) return {};
  return kernel_memory(shape.batch * shape.unfolded_elements(), x);
}

/// Returns the memory for the images that a backward pass unfolds; undefined if it unfolds none.
/// The gradient of the images needs this matrix only if the kernel is dilated.
Tensor unfolded_images(const ConvolutionShape& shape, const Tensor& x,
                       const std::array<bool, 3>& wanted) {
  return wanted[1] || (wanted[0] && shape.dilation > 1) ? unfolded_images(shape, x) : Tensor();
}

/// Computes the groups one after another, each with a copy of its channels, and concatenates the
/// results at the end.
Tensor unfolding_convolution(const ConvolutionShape& shape, const Tensor& x, IntArrayRef sizes,
                             at::MemoryFormat format) {
  if (shape.groups == 1) {
    const Tensor unfolded = unfolded_images(shape, x);
    return at::empty(sizes, x.options(), format);
  }
  const Tensor of_groups = kernel_memory(shape.batch * shape.out * shape.area(), x);
  {
    const Tensor channels =
                     kernel_memory(shape.batch * shape.in / shape.groups * shape.in_area(), x),
                 unfolded = unfolded_images(shape, x);
  }
  return at::empty(sizes, x.options(), format);
}

Tensor convolution(const Tensor& input, const Tensor& kernel, const std::optional<Tensor>&,
                   IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, bool transposed,
                   IntArrayRef output_padding, std::int64_t groups) {
  const at::MemoryFormat format = format_of(input, kernel);
  const Tensor x = input.contiguous(format), weight = kernel.contiguous(format);
  const std::vector<std::int64_t> sizes =
      result_shape(x, weight, stride, padding, dilation, transposed, output_padding, groups);
  const auto shape =
      shape_of(x, weight, sizes, stride, padding, dilation, transposed, groups, format);
  Tensor y = !shape || !on_cpu()       ? at::empty(sizes, x.options(), format)
             : takes_onednn(*shape, x) ? onednn_convolution(*shape, x, sizes, format)
                                       : unfolding_convolution(*shape, x, sizes, format);
  if (shape && !on_cpu()) kernel_bytes(gpu_forward_scratch(*shape), x);
  count_flops(product_flops(x, y, weight, transposed));
  return y;
}

/// Computes the gradients one after another, as a GPU does.
Three gpu_gradients(const std::optional<ConvolutionShape>& shape, const Tensor& x,
                    const Tensor& weight, const Tensor& dy, at::MemoryFormat format,
                    const std::array<bool, 3>& wanted) {
  Tensor dx, dweight, dbias;
  if (wanted[0]) {
    dx = at::empty_like(x, format);
    if (shape) kernel_bytes(gpu_input_gradient_scratch(*shape), x);
  }
  if (wanted[1]) {
    dweight = at::empty_like(weight, format);
    if (shape) kernel_bytes(gpu_weight_gradient_scratch(*shape, traced_gpu()), x);
  }
  if (wanted[2]) dbias = at::empty({dy.size(1)}, weight.options());
  return {dx, dweight, dbias};
}

Three convolution_backward(const Tensor& gradient, const Tensor& input, const Tensor& kernel,
                           IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation,
                           bool transposed, IntArrayRef, std::int64_t groups,
                           std::array<bool, 3> wanted) {
  const at::MemoryFormat format = format_of(input, kernel);
  const Tensor x = input.contiguous(format), weight = kernel.contiguous(format),
               dy = gradient.contiguous(format);
  count_flops((wanted[0] + wanted[1]) * product_flops(x, dy, weight, transposed));
  const auto shape =
      shape_of(x, weight, dy.sizes(), stride, padding, dilation, transposed, groups, format);
  if (!on_cpu()) return gpu_gradients(shape, x, weight, dy, format, wanted);
  const bool is_onednn = shape && takes_onednn(*shape, x);
  Tensor dx, dweight, dbias;
  // With groups, every group's gradients are kept until all are concatenated.
  const bool keeps = shape && !is_onednn && groups > 1;
  const Tensor of_groups =
      keeps ? kernel_memory(x.numel() * wanted[0] + weight.numel() * wanted[1], x) : Tensor();
  if (keeps) {
    const Tensor channels = kernel_memory((x.numel() + dy.numel()) / groups, x),
                 unfolded = unfolded_images(*shape, x, wanted);
  }
  if (wanted[0])
    dx = is_onednn ? onednn_input_gradient(*shape, x, format) : at::empty_like(x, format);
  if (wanted[1])
    dweight = is_onednn ? onednn_weight_gradient(*shape, x, weight, format)
                        : at::empty_like(weight, format);
  if (shape && !is_onednn && !keeps) unfolded_images(*shape, x, wanted);
  if (wanted[2]) dbias = at::empty({dy.size(1)}, weight.options());
  return {dx, dweight, dbias};
}

}  // namespace

void register_convolutions(torch::Library& meta) {
  meta.impl("convolution_overrideable", convolution);
  meta.impl("convolution_backward_overrideable", convolution_backward);
  // Torch's Python package registers its own shape functions for these two operators. LibTorch's
  // default implementation, used here for any device, calls the two operators above.
  meta.impl("convolution", at::compositeexplicitautograd::convolution);
  meta.impl("convolution_backward", at::compositeexplicitautograd::convolution_backward);
}

}  // namespace stages::meta
