#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <ATen/core/Tensor.h>

#include "stages/numerics/recomputable_module.h"
#include "stages/numerics/running_statistics.h"
#include "stages/random/dropout.h"

namespace stages {

/// True if grouped_convolution() supports maps (n, channels, h, w) and a weight (channels, channels
/// of a group, 3, 3): float32 on a CPU without autocast, channels_last maps, a multiple of 16
/// channels, and groups of four channels, or of eight if the stride is two.
bool can_convolve_groups(const at::Tensor& maps, const at::Tensor& weight, std::int64_t stride);

/// Computes torch::conv2d with groups and a padding of one, with a faster weight gradient: each
/// vector register holds several groups, whereas oneDNN uses one register per group. The sums do
/// not depend on the number of threads. Double backward throws std::logic_error.
at::Tensor grouped_convolution(const at::Tensor& maps, const at::Tensor& weight,
                               std::int64_t stride);

// Layers of convolutional networks. Like those in layers.h, they leave their weights uninitialized.

struct ConvolutionSizes {
  std::int64_t in = 0, out = 0;  ///< channels
  std::int64_t size = 3;         ///< side of the square kernel
  std::int64_t stride = 1, padding = 0;
  bool has_bias = false;
  std::int64_t groups = 1;  ///< channel groups; a group's outputs depend only on its own inputs
};

/// A convolution of maps. `weight` is (out, in / groups, size, size); `bias` is (out) or undefined.
class Convolution : public PrecisionModule {
 public:
  Convolution(const ConvolutionSizes& shape, const at::TensorOptions& options);
  /// Maps (n, in, h, w) to (n, out, h', w').
  at::Tensor forward(const at::Tensor& x) const;

  at::Tensor weight, bias;

 private:
  const ConvolutionSizes shape_;
};

/// The statistics that a BatchNorm normalizes with.
enum class BatchNormStatistics {
  kCollected,  ///< in training, the batch statistics, which also update the running statistics; in
               ///< eval mode, the running statistics
  kOfBatch,    ///< always the batch statistics; running statistics are not used
  kFixed,      ///< always the running statistics, which are not updated
};

/// Normalizes each channel (Ioffe and Szegedy, 2015) like torch's BatchNorm2d, with its momentum of
/// 0.1 and epsilon of 1e-5. Parameters: `weight` and `bias` (channels); buffers: running_mean,
/// running_var and num_batches_tracked. While a ScopedRankStatistics exists, the batch statistics
/// are computed over all ranks.
class BatchNorm : public PrecisionModule, public CollectingLayer {
 public:
  BatchNorm(std::int64_t channels, BatchNormStatistics statistics,
            const at::TensorOptions& options);
  /// Normalizes `x`, (n, channels, h, w) or (n, channels), and returns a tensor of the same shape.
  /// The result may be changed in place: it shares no memory with `x`, and no gradient needs it.
  /// A single value per channel has no variance: kCollected then uses the running statistics and
  /// does not update them.
  at::Tensor forward(const at::Tensor& x) const;
  /// Returns relu(forward(x)).
  at::Tensor forward_relu(const at::Tensor& x) const;
  /// Switches its statistics to kFixed.
  void fix_statistics() { statistics_ = BatchNormStatistics::kFixed; }
  bool collects_statistics() const override {
    return statistics_ == BatchNormStatistics::kCollected;
  }
  void start_averaging() override;
  void stop_averaging() override;
  RunningNumbers running() const override;
  void count_batches(std::int64_t more) override;

  at::Tensor weight, bias;

 private:
  at::Tensor compute(const at::Tensor& x, bool has_relu) const;

  at::Tensor running_mean_, running_var_, num_batches_tracked_;
  BatchNormStatistics statistics_;
  mutable std::optional<std::int64_t> averaged_;  // batches since start_averaging()
  mutable std::int64_t tracked_ = 0;              // other batches that it has counted
};

/// Creates the stochastic depth of a residual block and registers it under timm's name, drop_path,
/// if `probability` is above 0; otherwise returns null.
std::shared_ptr<Dropout> register_drop_path(torch::nn::Module& block, double probability);

/// The dimensions of a gate, which scales each channel of a map (Hu et al., 2018).
struct SqueezeExcitationSizes {
  std::int64_t channels = 0, squeezed = 0;
};

/// The names of a gate's two layers, and the activation between them.
struct SqueezeExcitationStyle {
  std::string squeeze,
      excite;  ///< "fc1" and "fc2" of ResNets, "conv_reduce" and "conv_expand" of EfficientNets
  bool is_silu = false;  ///< otherwise ReLU
};

/// The gate of a block: a value between 0 and 1 for each channel of each image. Children, with the
/// style's names: two 1 x 1 convolutions with a bias.
class SqueezeExcitation : public PrecisionModule {
 public:
  SqueezeExcitation(const SqueezeExcitationSizes& sizes, const SqueezeExcitationStyle& style,
                    const at::TensorOptions& options);
  /// Returns the factors for the channels of maps (n, channels, h, w): (n, channels, 1, 1).
  at::Tensor forward(const at::Tensor& maps) const;

 private:
  const bool is_silu_;
  std::shared_ptr<Convolution> squeeze_, excite_;
};

}  // namespace stages
