#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "stages/train/observed_training.h"
#include "stages/train/training_kind.h"

namespace stages {

/// The options of a learning rate range test.
struct RangeTestOptions {
  double first = 0, last = 0;  ///< the learning rates of the first and the last step
  std::int64_t steps = 0;      ///< at least 2
};

/// A learning rate range test (Smith 2017, arXiv:1506.01186): observes the loss of a graph's first
/// training run while the learning rate grows exponentially, then stops that run. As in fastai and
/// Lightning, the loss is smoothed by an exponential average (0.98), corrected for its initial bias
/// toward 0; the test ends early if the smoothed loss exceeds four times its minimum.
///
///   RangeTest test({1e-7, 10, 100});
///   options.observer = &test;  // the run then throws runner::Canceled
///   test.answer();
class RangeTest final : public StepObserver {
 public:
  explicit RangeTest(RangeTestOptions options) : options_(options) {}

  std::int64_t steps() const override { return options_.steps; }
  /// Records a loss. Throws runner::Canceled after the last one.
  void see(const Place& place, std::string_view name, const at::Tensor& tensor) override;

  /// Returns `options` adapted to a test of the training stage at `pointer`, in which an epoch has
  /// `epoch_steps` steps: the learning rate grows, all steps are recorded, and nothing is
  /// validated, averaged or saved.
  TrainerOptions begin(TrainerOptions options, const std::string& pointer,
                       std::int64_t epoch_steps);
  /// Records that a loss was not finite.
  void diverge() { has_diverged_ = true; }

  /// True if a training run has begun; in that case, the rest of the graph need not run.
  bool has_begun() const { return !pointer_.empty(); }
  /// Returns {"stage", "learning_rate", "batch_size", "diverged", "suggestion", "points": [{"step",
  /// "learning_rate", "loss", "smoothed_loss"}]}. "suggestion" is the learning rate at which the
  /// smoothed loss falls fastest per step, excluding the first ten steps and the last; null if it
  /// never falls.
  nlohmann::ordered_json answer() const;

 private:
  struct Point {
    std::int64_t step;
    double learning_rate, loss, smoothed;
  };

  double rate_at(std::int64_t step) const;

  const RangeTestOptions options_;
  std::string pointer_;
  double learning_rate_ = 0;  // of the recipe
  std::int64_t batch_size_ = 0;
  bool has_diverged_ = false;
  double average_ = 0;
  std::vector<Point> points_;
};

/// Returns the index in [begin, end) at which `values` falls fastest, by central differences as in
/// numpy.gradient; -1 if they never fall.
std::int64_t steepest_descent(const std::vector<double>& values, std::int64_t begin,
                              std::int64_t end);

}  // namespace stages
