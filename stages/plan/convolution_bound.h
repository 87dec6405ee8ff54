#pragma once

#include <cstdint>

namespace stages::meta {

/// A convolution in two dimensions on a CPU, as far as the memory of its kernels depends on it.
struct ConvolutionShape {
  std::int64_t batch = 0, in = 0, out = 0, groups = 1;  ///< channels in all
  std::int64_t kernel_height = 0, kernel_width = 0;
  std::int64_t stride = 1, padding = 0, dilation = 1;  ///< the largest of each
  std::int64_t in_height = 0, in_width = 0, out_height = 0,
               out_width = 0;      ///< pixels of the input and of the result
  std::int64_t element_bytes = 4;  ///< 2: of a half type, whose sums are float32
  bool channels_last = false;
  std::int64_t threads = 1;
  bool unfolds_images = true;  ///< of every shape (processor.h)

  std::int64_t kernel() const { return kernel_height * kernel_width; }
  std::int64_t in_area() const { return in_height * in_width; }
  std::int64_t area() const { return out_height * out_width; }
  std::int64_t weight_elements() const { return out * (in / groups) * kernel(); }
  /// Of the matrix whose columns are what the kernel sees of one image, for one group.
  std::int64_t unfolded_elements() const { return in / groups * kernel() * area(); }
  bool is_pointwise() const { return kernel() == 1; }
  /// Of images of one pixel or one channel torch cannot tell the layout.
  bool has_two_layouts() const { return in_area() == 1 || area() == 1 || in == 1 || out == 1; }
  bool is_copied() const { return !channels_last && !has_two_layouts(); }
  bool may_be_copied() const { return !channels_last || has_two_layouts(); }
  bool is_half() const { return element_bytes == 2; }
};

/// Whether torch gives a convolution of float32 to oneDNN at all; else it unfolds images itself.
bool takes_onednn(const ConvolutionShape& shape);

// Upper bounds, in bytes, of what oneDNN takes besides the tensors of a convolution. Its kernels
// differ by processor and by version, and so does how they divide the work; they are of two
// families, and the larger counts that may be:
// - direct ones read and write copies in which channels are padded to vectors, of at most 16
// numbers, and hold for each
//   thread what it gathers of an image or sums up of the weight's gradient;
// - others multiply matrices, and hold for each thread an image that is unfolded into one, and four
// times the weight's
//   gradient (oneDNN books its bytes as numbers). With AVX2 they are for shapes that networks
//   seldom have.

/// Copies in the order of a direct kernel. Images that are channels_last have none.
std::int64_t blocked_input(const ConvolutionShape& shape);
std::int64_t blocked_input_gradient(const ConvolutionShape& shape);
std::int64_t blocked_result(const ConvolutionShape& shape);
std::int64_t blocked_weight(const ConvolutionShape& shape);
/// Likewise of the weight's gradient.
std::int64_t blocked_weight_gradient(const ConvolutionShape& shape);

/// Beside the copies, of the result's kernel.
std::int64_t forward_scratch(const ConvolutionShape& shape);
/// Of the kernel of the input's gradient.
std::int64_t input_gradient_scratch(const ConvolutionShape& shape);
/// Of the kernel of the weight's gradient.
std::int64_t weight_gradient_scratch(const ConvolutionShape& shape);

}  // namespace stages::meta
