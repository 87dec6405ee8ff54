#include <algorithm>
#include <array>
#include <tuple>

#include <torch/torch.h>

#include "stages/trace/memory_trace.h"
#include "stages/trace/meta_families.h"
#include "stages/trace/onednn.h"

namespace stages::meta {
namespace {

using at::IntArrayRef;
using at::Tensor;
using Three = std::tuple<Tensor, Tensor, Tensor>;

std::vector<std::int64_t> result_shape(const Tensor& x, const Tensor& weight, IntArrayRef stride, IntArrayRef padding,
                                       IntArrayRef dilation, bool transposed, IntArrayRef output_padding,
                                       std::int64_t groups) {
  std::vector<std::int64_t> shape = {x.size(0), transposed ? weight.size(1) * groups : weight.size(0)};
  for (std::size_t i = 0; i < stride.size(); ++i) {
    const auto dimension = static_cast<std::int64_t>(i) + 2;
    const std::int64_t reach = dilation[i] * (weight.size(dimension) - 1), in = x.size(dimension);
    shape.push_back(transposed ? (in - 1) * stride[i] - 2 * padding[i] + reach + output_padding[i] + 1
                               : (in + 2 * padding[i] - reach - 1) / stride[i] + 1);
  }
  return shape;
}

double product_flops(const Tensor& x, const Tensor& y, const Tensor& weight, bool transposed) {
  return 2.0 * static_cast<double>((transposed ? x : y).numel()) * static_cast<double>(weight.numel() / weight.size(0));
}

at::MemoryFormat format_of(const Tensor& x, const Tensor& weight) {
  const at::MemoryFormat format = x.suggest_memory_format();
  return format == at::MemoryFormat::Contiguous ? weight.suggest_memory_format() : format;
}

/// The convolution as oneDNN sees it; nullopt where another's kernels compute it. What is known of oneDNN is of two
/// dimensions.
std::optional<ConvolutionShape> onednn_shape(const Tensor& x, const Tensor& weight, IntArrayRef result,
                                             IntArrayRef stride, IntArrayRef dilation, bool transposed,
                                             std::int64_t groups) {
  if (!on_cpu() || transposed || x.dim() != 4 || x.scalar_type() == at::kDouble) return {};
  const ConvolutionShape shape = {.batch = x.size(0),
                                  .in = x.size(1),
                                  .out = result[1],
                                  .groups = groups,
                                  .kernel_height = weight.size(2),
                                  .kernel_width = weight.size(3),
                                  .stride = *std::max_element(stride.begin(), stride.end()),
                                  .in_area = x.size(2) * x.size(3),
                                  .area = result[2] * result[3]};
  const auto is_more_than_one = [](std::int64_t n) { return n > 1; };
  const bool strided_or_dilated = std::any_of(stride.begin(), stride.end(), is_more_than_one) ||
                                  std::any_of(dilation.begin(), dilation.end(), is_more_than_one);
  return takes_onednn(shape, strided_or_dilated, threads()) ? std::optional(shape) : std::nullopt;
}

/// Memory of a kernel for a while.
Tensor kernel_memory(std::int64_t elements, const Tensor& x) { return scratch({elements}, x.options()); }
/// A copy in a blocked format, of all but images of three channels, which are read as they are.
Tensor blocked_input(const ConvolutionShape& shape, const Tensor& x) {
  return shape.in <= 3 ? Tensor() : kernel_memory(shape.batch * blocked_channels(shape.in) * shape.in_area, x);
}
Tensor blocked_result(const ConvolutionShape& shape, const Tensor& x) {
  return kernel_memory(shape.batch * blocked_channels(shape.out) * shape.area, x);
}

Tensor convolution(const Tensor& input, const Tensor& kernel, const std::optional<Tensor>&, IntArrayRef stride,
                   IntArrayRef padding, IntArrayRef dilation, bool transposed, IntArrayRef output_padding,
                   std::int64_t groups) {
  const at::MemoryFormat format = format_of(input, kernel);
  const Tensor x = input.contiguous(format), weight = kernel.contiguous(format);
  const std::vector<std::int64_t> sizes =
      result_shape(x, weight, stride, padding, dilation, transposed, output_padding, groups);
  const auto result = [&] {
    Tensor y = at::empty(sizes, x.options(), format);
    count_flops(product_flops(x, y, weight, transposed));
    return y;
  };
  const auto shape = onednn_shape(x, weight, sizes, stride, dilation, transposed, groups);
  if (!shape) return result();
  if (format == at::MemoryFormat::ChannelsLast) {
    Tensor y = result();
    const Tensor sums = kernel_memory(forward_scratch(*shape, true, threads()), x),
                 weight_copy = kernel_memory(blocked_weight(*shape, true), x);
    return y;
  }
  Tensor y_copy;
  if (x.scalar_type() != at::kFloat && groups == 1) {
    const Tensor sums = scratch({half_forward_scratch(*shape, threads())}, x.options().dtype(at::kFloat)),
                 x_copy = kernel_memory(x.numel(), x), weight_copy = kernel_memory(weight.numel(), x);
    y_copy = blocked_result(*shape, x);
  } else {
    const Tensor gathered = kernel_memory(forward_scratch(*shape, false, threads()), x),
                 x_copy = blocked_input(*shape, x), weight_copy = kernel_memory(blocked_weight(*shape, false), x);
    y_copy = blocked_result(*shape, x);
  }
  return result();
}

Tensor onednn_input_gradient(const ConvolutionShape& shape, const Tensor& x, at::MemoryFormat format) {
  if (format == at::MemoryFormat::ChannelsLast) {
    Tensor dx = at::empty_like(x, format);
    const Tensor weight_copy = kernel_memory(shape.weight_elements(), x),
                 sums = kernel_memory(input_gradient_scratch(shape, true, threads()), x);
    return dx;
  }
  Tensor dx_copy;
  {
    const Tensor dy_copy = blocked_result(shape, x), weight_copy = kernel_memory(blocked_weight(shape, false), x);
    dx_copy = blocked_input(shape, x);
    const Tensor sums = kernel_memory(input_gradient_scratch(shape, false, threads()), x);
  }
  Tensor dx = at::empty_like(x, format);
  const Tensor turned = shape.stride > 1 ? blocked_input(shape, x) : Tensor();
  return dx;
}

/// The weight's gradient of a half type: by the matrix units, in float32 and with the input's channels padded.
Tensor half_weight_gradient(const ConvolutionShape& shape, const Tensor& x, const Tensor& weight,
                            at::MemoryFormat format) {
  const bool turns = format != at::MemoryFormat::ChannelsLast;
  const auto wide = x.options().dtype(at::kFloat);
  Tensor dweight_copy;
  {
    const Tensor dy_copy = turns ? kernel_memory(shape.batch * shape.out * shape.area, x) : Tensor();
    const Tensor x_copy = turns ? kernel_memory(shape.batch * shape.in * shape.in_area, x) : Tensor();
    dweight_copy = scratch({padded_weight(shape)}, wide);
    const Tensor sums = scratch({half_weight_gradient_scratch(shape, threads())}, wide);
  }
  return at::empty_like(weight, format);
}

Tensor onednn_weight_gradient(const ConvolutionShape& shape, const Tensor& x, const Tensor& weight,
                              at::MemoryFormat format) {
  if (x.scalar_type() != at::kFloat && shape.groups == 1) return half_weight_gradient(shape, x, weight, format);
  const auto sums = [&](bool channels_last) {
    return kernel_memory(weight_gradient_scratch(shape, channels_last, threads()), x);
  };
  const std::int64_t elements = shape.weight_elements();
  if (format == at::MemoryFormat::ChannelsLast) {
    Tensor dweight_copy = kernel_memory(channels_last_weight_gradient(shape), x);
    sums(true);
    Tensor dweight = at::empty_like(weight, format);
    const Tensor turned = kernel_memory(elements, x);
    return dweight;
  }
  Tensor dweight_copy;
  if (unfolds(shape)) {
    dweight_copy = kernel_memory(elements, x);
    sums(false);
  } else {
    const Tensor x_copy = blocked_input(shape, x), dy_copy = blocked_result(shape, x);
    dweight_copy = kernel_memory(blocked_weight(shape, false), x);
    sums(false);
  }
  return at::empty_like(weight, format);
}

Three convolution_backward(const Tensor& gradient, const Tensor& input, const Tensor& kernel, IntArrayRef stride,
                           IntArrayRef, IntArrayRef dilation, bool transposed, IntArrayRef, std::int64_t groups,
                           std::array<bool, 3> wanted) {
  const at::MemoryFormat format = format_of(input, kernel);
  const Tensor x = input.contiguous(format), weight = kernel.contiguous(format), dy = gradient.contiguous(format);
  count_flops((wanted[0] + wanted[1]) * product_flops(x, dy, weight, transposed));
  const auto shape = onednn_shape(x, weight, dy.sizes(), stride, dilation, transposed, groups);
  Tensor dx, dweight, dbias;
  if (wanted[0]) dx = shape ? onednn_input_gradient(*shape, x, format) : at::empty_like(x, format);
  if (wanted[1]) dweight = shape ? onednn_weight_gradient(*shape, x, weight, format) : at::empty_like(weight, format);
  if (wanted[2]) dbias = at::empty({dy.size(1)}, weight.options());
  return {dx, dweight, dbias};
}

}  // namespace

void register_convolutions(torch::Library& meta) {
  meta.impl("convolution_overrideable", convolution);
  meta.impl("convolution_backward_overrideable", convolution_backward);
}

}  // namespace stages::meta
