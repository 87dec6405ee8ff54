#pragma once

#include <cstdint>

namespace stages::meta {

/// A two-dimensional convolution: the properties on which the memory of its kernels depends.
struct ConvolutionShape {
  std::int64_t batch = 0, in = 0, out = 0, groups = 1;  ///< channels in total
  std::int64_t kernel_height = 0, kernel_width = 0;
  std::int64_t stride = 1, padding = 0, dilation = 1;  ///< the largest of each
  std::int64_t in_height = 0, in_width = 0, out_height = 0,
               out_width = 0;      ///< pixels of the input and of the result
  std::int64_t element_bytes = 4;  ///< 2: a half type, which is summed in float32
  bool channels_last = false;
  std::int64_t threads = 1;    ///< of a CPU
  bool unfolds_images = true;  ///< of a CPU, for every shape (memory_trace.h)

  std::int64_t kernel() const { return kernel_height * kernel_width; }
  std::int64_t in_area() const { return in_height * in_width; }
  std::int64_t area() const { return out_height * out_width; }
  std::int64_t weight_elements() const { return out * (in / groups) * kernel(); }
  /// Elements of the matrix whose columns are the inputs of the kernel in one image, for one group
  /// (im2col).
  std::int64_t unfolded_elements() const { return in / groups * kernel() * area(); }
  bool is_pointwise() const { return kernel() == 1; }
  /// Torch cannot detect the memory format of images with one pixel or one channel.
  bool has_two_layouts() const { return in_area() == 1 || area() == 1 || in == 1 || out == 1; }
  bool is_copied() const { return !channels_last && !has_two_layouts(); }
  bool may_be_copied() const { return !channels_last || has_two_layouts(); }
  bool is_half() const { return element_bytes == 2; }
};

/// Whether torch uses oneDNN for a float32 convolution; otherwise it unfolds images itself.
bool takes_onednn(const ConvolutionShape& shape);

// Upper bounds, in bytes, of the memory that oneDNN takes in addition to the tensors of a
// convolution. Its kernels, and how they divide the work, differ by processor and version. There
// are two families, and the larger one that is possible counts:
// - direct kernels read and write copies whose channels are padded to vectors of at most 16
//   numbers; each thread holds what it gathers from an image or sums up for the weight's gradient;
// - others multiply matrices; each thread holds one unfolded image and four times the weight's
//   gradient (oneDNN counts its bytes as numbers). With AVX2 they are used only for shapes that are
//   rare in networks.

/// Copies in the memory order of a direct kernel. channels_last images need none.
std::int64_t blocked_input(const ConvolutionShape& shape);
std::int64_t blocked_input_gradient(const ConvolutionShape& shape);
std::int64_t blocked_result(const ConvolutionShape& shape);
std::int64_t blocked_weight(const ConvolutionShape& shape);
/// The same for the weight's gradient.
std::int64_t blocked_weight_gradient(const ConvolutionShape& shape);

/// In addition to the copies: scratch of the forward kernel.
std::int64_t forward_scratch(const ConvolutionShape& shape);
/// Scratch of the kernel of the input's gradient.
std::int64_t input_gradient_scratch(const ConvolutionShape& shape);
/// Scratch of the kernel of the weight's gradient.
std::int64_t weight_gradient_scratch(const ConvolutionShape& shape);

}  // namespace stages::meta
