#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace torch::nn {
class Module;
}

namespace stages {

/// Detects Python code that changes a network's parameters between two optimizer steps, in any way:
/// torch itself does not notice changes through `weight.data`.
///
///   WeightsWatch watch(network, "model");
///   watch.remember(0);
///   compute(step 1);     // runs Python's forward and backward pass
///   watch.check(1);      // throws if they have changed a parameter
///   commit();            // the optimizer changes parameters
///   watch.remember(1);
///
/// It reads all parameters in the first steps of a process and in every 64th step, and nothing in
/// between, so code that changes parameters in every step is detected at once, and other code
/// possibly not at all. Networks without Python code are not watched.
class WeightsWatch {
 public:
  /// The network is borrowed. `model_stage` is the stage that errors are attributed to.
  WeightsWatch(const torch::nn::Module& network, std::string model_stage);

  /// Call this when the optimizer has written step `done` (1-based), and with 0 before the first
  /// step.
  void remember(std::int64_t done);
  /// Call this before the optimizer writes the weights of `step`. Throws runner::StageError,
  /// kStageFailed, with the name of a parameter that has changed since remember().
  void check(std::int64_t step);

 private:
  bool is_due(std::int64_t done);

  struct Weight {
    std::string name;
    at::Tensor tensor;
    std::uint64_t digest = 0;  ///< digest of the values when remember() was called
  };
  const std::string model_stage_;
  std::vector<Weight> weights_;  // empty for a network without Python code
  std::int64_t seen_ = 0;        // calls of remember()
  bool is_remembered_ = false;
};

}  // namespace stages
