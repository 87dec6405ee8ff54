#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

namespace torch::nn {
class Module;
}

namespace stages {

/// Running statistics r: a batch with the statistics s replaces them with (1 - m) r + m s.
struct RunningNumbers {
  std::vector<at::Tensor> statistics;  ///< shared with the layer
  std::int64_t batches = 0;            ///< number included since start_averaging() or since the
                                       ///< layer was created
  std::optional<double> momentum;      ///< m; nullopt: a plain average, m = 1 / batches
};

/// A layer with running statistics over the samples that it sees in training, such as BatchNorm.
class CollectingLayer {
 public:
  virtual ~CollectingLayer() = default;
  /// True if training updates its running statistics.
  virtual bool collects_statistics() const = 0;
  /// Forgets the running statistics and, until stop_averaging(), makes them the plain average over
  /// the batches in training mode, as torch does with a momentum of None. Such batches are not
  /// counted in num_batches_tracked.
  virtual void start_averaging() = 0;
  virtual void stop_averaging() = 0;
  virtual RunningNumbers running() const = 0;
  /// Counts more batches, which the running statistics already include.
  virtual void count_batches(std::int64_t more) = 0;
};

/// How training affects the running statistics of a network.
struct RunningStatistics {
  bool are_collected = false;       ///< training updates at least some of them
  bool has_unknown_layers = false;  ///< some are in layers that are not CollectingLayers
};
RunningStatistics running_statistics_of(const torch::nn::Module& network);

/// While this object lives, the running statistics of a network are collected from scratch, as by
/// torch.optim.swa_utils.update_bn.
class [[nodiscard]] ScopedNewStatistics {
 public:
  /// `network` is borrowed and keeps its submodules.
  explicit ScopedNewStatistics(torch::nn::Module& network);
  ~ScopedNewStatistics();
  ScopedNewStatistics(const ScopedNewStatistics&) = delete;
  ScopedNewStatistics& operator=(const ScopedNewStatistics&) = delete;

 private:
  torch::nn::Module& network_;
};

}  // namespace stages
