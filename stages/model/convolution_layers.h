#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <ATen/core/Tensor.h>

#include "stages/numerics/recomputable_module.h"

namespace stages {

/// Whether grouped_convolution() supports maps (n, channels, h, w) and a weight (channels, channels
/// of a group, 3, 3): float32 on a CPU, not under autocast, channels_last maps, and groups of four
/// channels, or of eight if the stride is two.
bool can_convolve_groups(const at::Tensor& maps, const at::Tensor& weight, std::int64_t stride);

/// Torch's conv2d with groups and a padding of one. oneDNN computes the gradient of the weight as
/// if each group were as wide as a vector. Here a vector holds several groups, and the sums do not
/// depend on the number of threads. A gradient of the gradient is refused with std::logic_error.
at::Tensor grouped_convolution(const at::Tensor& maps, const at::Tensor& weight,
                               std::int64_t stride);

// Layers of convolutional networks. Like those of layers.h they leave their weights uninitialized.

struct ConvolutionSizes {
  std::int64_t in = 0, out = 0;  ///< channels
  std::int64_t size = 3;         ///< of the square kernel
  std::int64_t stride = 1, padding = 0;
  bool has_bias = false;
  std::int64_t groups = 1;  ///< of channels, in and out; each group sees only its own
};

/// A convolution of maps; `weight` (out, in / groups, size, size), `bias` (out) or undefined.
class Convolution : public PrecisionModule {
 public:
  Convolution(const ConvolutionSizes& shape, const at::TensorOptions& options);
  /// (n, in, h, w) to (n, out, h', w').
  at::Tensor forward(const at::Tensor& x) const;

  at::Tensor weight, bias;

 private:
  const ConvolutionSizes shape_;
};

/// The statistics by which a BatchNorm normalises.
enum class BatchNormStatistics {
  kCollected,  ///< those of the batch in training, which update the running statistics; these in
               ///< eval mode
  kOfBatch,    ///< always those of the batch; no running statistics
  kFixed,      ///< always the given ones; nothing is updated
};

/// Normalisation of each channel (Ioffe and Szegedy, 2015), like torch's, with its momentum of 0.1
/// and epsilon of 1e-5; parameters `weight` and `bias` (channels), buffers running_mean,
/// running_var and num_batches_tracked. Within a ScopedRankStatistics the batch is that of all
/// ranks.
class BatchNorm : public PrecisionModule {
 public:
  BatchNorm(std::int64_t channels, BatchNormStatistics statistics,
            const at::TensorOptions& options);
  /// (n, channels, h, w) or (n, channels) to the same. The result shares no memory with `x`, and no
  /// gradient needs it. One number per channel has no variance: with kCollected the running
  /// statistics are then used and not updated.
  at::Tensor forward(const at::Tensor& x) const;
  /// relu of forward().
  at::Tensor forward_relu(const at::Tensor& x) const;
  /// Switches its statistics to kFixed.
  void fix_statistics() { statistics_ = BatchNormStatistics::kFixed; }

  at::Tensor weight, bias;

 private:
  at::Tensor compute(const at::Tensor& x, bool has_relu) const;

  at::Tensor running_mean_, running_var_, num_batches_tracked_;
  BatchNormStatistics statistics_;
};

/// The sizes of a gate, which scales each channel of a map (Hu and others, 2018).
struct SqueezeExcitationSizes {
  std::int64_t channels = 0, squeezed = 0;
};

/// The names of a gate's two layers, and the activation between them.
struct SqueezeExcitationStyle {
  std::string squeeze,
      excite;  ///< "fc1" and "fc2" of ResNets, "conv_reduce" and "conv_expand" of EfficientNets
  bool is_silu = false;  ///< otherwise ReLU
};

/// The gate of a block: a number between 0 and 1 for each channel of each image. Children by the
/// style's names, both 1 x 1 convolutions with a bias.
class SqueezeExcitation : public PrecisionModule {
 public:
  SqueezeExcitation(const SqueezeExcitationSizes& sizes, const SqueezeExcitationStyle& style,
                    const at::TensorOptions& options);
  /// The factor of each channel of maps (n, channels, h, w): (n, channels, 1, 1).
  at::Tensor forward(const at::Tensor& maps) const;

 private:
  const bool is_silu_;
  std::shared_ptr<Convolution> squeeze_, excite_;
};

}  // namespace stages
