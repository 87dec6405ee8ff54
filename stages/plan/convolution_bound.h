#pragma once

#include <cstdint>

namespace stages::meta {

/// The properties of a two-dimensional convolution that determine how much memory its kernels need.
struct ConvolutionShape {
  std::int64_t batch = 0, in = 0, out = 0, groups = 1;  ///< in, out: channels of all groups
  std::int64_t kernel_height = 0, kernel_width = 0;
  std::int64_t stride = 1, padding = 0, dilation = 1;  ///< the larger of the two dimensions
  std::int64_t in_height = 0, in_width = 0, out_height = 0,
               out_width = 0;      ///< pixels of the input and the result
  std::int64_t element_bytes = 4;  ///< 2: a half-precision type, accumulated in float32
  bool channels_last = false;
  std::int64_t threads = 1;    ///< CPU threads
  bool unfolds_images = true;  ///< on a CPU, for every shape (memory_trace.h)

  std::int64_t kernel() const { return kernel_height * kernel_width; }
  std::int64_t in_area() const { return in_height * in_width; }
  std::int64_t area() const { return out_height * out_width; }
  std::int64_t weight_elements() const { return out * (in / groups) * kernel(); }
  /// Number of elements in the unfolded form (im2col) of one image and one group: each column
  /// contains the kernel's inputs at one position.
  std::int64_t unfolded_elements() const { return in / groups * kernel() * area(); }
  bool is_pointwise() const { return kernel() == 1; }
  /// Torch cannot detect the memory format of images with one pixel or one channel.
  bool has_two_layouts() const { return in_area() == 1 || area() == 1 || in == 1 || out == 1; }
  bool is_copied() const { return !channels_last && !has_two_layouts(); }
  bool may_be_copied() const { return !channels_last || has_two_layouts(); }
  bool is_half() const { return element_bytes == 2; }
};

/// True if torch uses oneDNN for a float32 convolution; otherwise it unfolds images itself.
bool takes_onednn(const ConvolutionShape& shape);

// Upper bounds, in bytes, for the memory that oneDNN allocates in addition to the tensors of a
// convolution. Its kernels, and how they divide the work, differ by processor and version. There
// are two families; if both are possible, the larger one applies:
// - direct kernels read and write copies with channels padded to vectors of at most 16 values;
//   each thread also keeps the values that it gathers from an image or sums for the weight
//   gradient;
// - other kernels multiply matrices; each thread keeps one unfolded image and four times the weight
//   gradient (oneDNN allocates as many floats as the gradient has bytes). With AVX2 they are used
//   only for shapes that are rare in networks.

/// Bytes of the copies in a direct kernel's memory order. channels_last images need no copy.
std::int64_t blocked_input(const ConvolutionShape& shape);
std::int64_t blocked_input_gradient(const ConvolutionShape& shape);
std::int64_t blocked_result(const ConvolutionShape& shape);
std::int64_t blocked_weight(const ConvolutionShape& shape);
/// Bytes of the copy of the weight gradient.
std::int64_t blocked_weight_gradient(const ConvolutionShape& shape);

/// Bytes of scratch memory for the forward kernel, in addition to the copies.
std::int64_t forward_scratch(const ConvolutionShape& shape);
/// Bytes of scratch memory for the input-gradient kernel.
std::int64_t input_gradient_scratch(const ConvolutionShape& shape);
/// Bytes of scratch memory for the weight-gradient kernel.
std::int64_t weight_gradient_scratch(const ConvolutionShape& shape);

}  // namespace stages::meta
