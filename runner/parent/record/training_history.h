#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "runner/shared/protocol/event.h"

namespace runner {

/// What a training measured at the end of each epoch, as nodes/<id>/training_metrics.json holds it:
///
///   {"train_losses": […], "val_losses": […], "val_accuracies": […], "epoch_times": […]}
///
/// The accuracies lie between 0 and 1, the times are seconds of work, with validation; of a run that was stopped, also
/// what had to be done again. An epoch without validation has null; without any, the list is empty.
class TrainingHistory {
 public:
  struct Epoch {
    std::int64_t step = 0;  ///< the last
    double train_loss = 0;
    std::optional<double> validation_loss = {}, validation_accuracy = {};
    double seconds = 0;
  };

  /// `began`: when the training did, in seconds after the run's start.
  explicit TrainingHistory(double began) : until_(began) {}

  /// Takes note of a metric of the training, measured `seconds` after the run's start. True where it is a number of an
  /// epoch.
  bool see(const NodeMetric& metric, double seconds);

  const std::vector<Epoch>& epochs() const { return epochs_; }
  nlohmann::ordered_json to_json() const;

 private:
  std::vector<Epoch> epochs_;
  double until_;  // the end of what epochs_ has
};

}  // namespace runner
