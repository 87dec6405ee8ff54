#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace runner {
class RunContext;
struct Progress;
}  // namespace runner

namespace stages {

struct DatasetDescription;
class GradientHistograms;

/// Returns what messages call the samples: "images" or "samples".
std::string unit_of(const DatasetDescription& data);

/// Means of a training step's measurements over some samples.
struct Means {
  using Named = std::vector<std::pair<std::string, double>>;

  double weight = 0;  ///< total weight of the samples in the loss
  double units =
      0;  ///< number of samples, or queries of episodes, that the scores are counted over
  double loss = 0;
  Named terms;  ///< the terms add up to the loss
  Named scores;
  Named saved = {};  ///< values from a validation that are saved with the weights but not logged

  /// Adds more samples, measured by the same step.
  void add(const Means& more);

  /// Returns "loss", or the term or score called `name`. Throws std::out_of_range if there is none.
  double at(std::string_view name) const;
};

/// Measures samples per second over the last 16 steps (or fewer), so that the rate follows recent
/// changes.
class Throughput {
 public:
  /// Records that `samples` were completed at time `seconds` of a monotonic clock. The first call
  /// starts the measurement.
  void add(double seconds, std::int64_t samples);
  /// Returns the samples per second; 0 while unknown.
  double per_second() const;
  void restart() { marks_.clear(); }

 private:
  struct Mark {
    double seconds;
    std::int64_t samples;
  };
  std::deque<Mark> marks_;
};

/// The report of one completed step.
struct StepRecord {
  std::int64_t epoch = 0, step = 0;  ///< 1-based; the step counts from the start of training
  std::int64_t samples = 0;
  double learning_rate = 0;  ///< learning rate of the first parameter group
  Means means;
  std::optional<double> gradient_norm;
  std::optional<double> loss_scale = {};  ///< fp16 only
  bool skipped = false;                   ///< the gradients overflowed with this scale
  std::vector<std::pair<std::string, double>> group_rates =
      {};  ///< learning rates of the other groups, by name
};

/// Reports the progress of training to the run: progress whenever steps become known, metrics every
/// few steps and at the end of an epoch, and one line per epoch for the user.
class TrainingLog {
 public:
  /// Returns the seconds of a monotonic clock.
  using Clock = std::function<double()>;

  struct Options {
    std::int64_t epochs = 0, steps = 0;
    std::int64_t log_every = 1;                   ///< steps between two steps with metrics
    std::string unit;                             ///< "images"
    std::int64_t budget_bytes = 0;                ///< device memory; 0: unknown
    std::function<std::int64_t()> memory_in_use;  ///< empty: unknown
    std::int64_t samples_in_unit = 1;             ///< an episode has several
  };
  /// `context` must outlive this object.
  TrainingLog(runner::RunContext& context, Options options, Clock clock);

  /// Declares that training continues after `step`, which this log has not seen.
  void resume_after(std::int64_t step) { first_step_ = step; }
  void begin_epoch();
  /// Records a step. The host may learn of several steps at once, the last of which is then passed
  /// to progress().
  void step(const StepRecord& record);
  /// Reports the progress up to `latest`, which is complete now.
  void progress(const StepRecord& latest);
  /// True if step() reports metrics of this step.
  bool has_metrics(std::int64_t step) const;
  void gradients(const GradientHistograms& histograms, std::int64_t step);
  /// Prints a message for the user.
  void say(const std::string& line);
  /// Reports the samples missing from this epoch: `skipped` cannot be read, and `left_out` belong
  /// to batches that are too small without the skipped samples.
  void say_missing(std::int64_t skipped, std::int64_t left_out);
  void validated_batch(std::int64_t epoch, std::int64_t batch, std::int64_t batches);
  /// `last` is the last step of the epoch, `skipped` the number of its skipped steps. `validation`
  /// is nullopt if there was none.
  void end_epoch(const StepRecord& last, const Means& training, std::int64_t skipped,
                 const std::optional<Means>& validation);

 private:
  void show(runner::Progress progress);

  runner::RunContext& context_;
  const Options options_;
  const Clock clock_;
  const double began_;
  double epoch_began_ = 0, trained_until_ = 0;
  std::int64_t epoch_samples_ = 0;
  std::int64_t new_samples_ = 0;  // samples in the steps recorded since the last progress()
  std::int64_t first_step_ = 0;   // steps completed before this log began
  Throughput throughput_;
};

/// The measurements of the current epoch so far.
struct EpochSoFar {
  Means means;
  std::int64_t skipped_steps = 0;
  StepRecord last;                        ///< the latest step; its own means are not saved
  std::optional<double> usual_loss = {};  ///< usual loss of the steps so far, in all epochs
};

/// Returns JSON for a checkpoint; preserves the numbers exactly.
nlohmann::json to_json(const EpochSoFar& epoch);
/// Parses the output of to_json(). Throws std::runtime_error for any other JSON.
EpochSoFar epoch_so_far_from_json(const nlohmann::json& json);

// The validation scores of weights, as stored in their checkpoint.

/// Returns JSON, {"loss": 0.25, "accuracy": 0.9, …}, omitting numbers that are not finite.
std::string validation_text(const Means& validation);

/// Returns the scores by name from "validation" in `about`, the strings saved with weights; empty
/// if there are none that can be parsed.
std::map<std::string, double> validation_scores(const std::map<std::string, std::string>& about);

}  // namespace stages
