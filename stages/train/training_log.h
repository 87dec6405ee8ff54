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

/// Means over some samples of what a training step measures.
struct Means {
  using Named = std::vector<std::pair<std::string, double>>;

  double weight = 0;  ///< of the samples so far, in the loss
  double units = 0;   ///< what the scores so far count among: samples, or the queries of episodes
  double loss = 0;
  Named terms;  ///< their sum is the loss
  Named scores;

  /// Takes in more samples, measured by the same step.
  void add(const Means& more);

  /// "loss", or a term or score of that name; throws std::out_of_range when there is none.
  double at(std::string_view name) const;
};

/// Samples a second over the latest steps: at most sixteen of them, so that the number follows a
/// change.
class Throughput {
 public:
  /// `samples` are done at `seconds` on a clock that only goes forward. The first call starts the
  /// measurement.
  void add(double seconds, std::int64_t samples);
  /// 0 while unknown.
  double per_second() const;
  void restart() { marks_.clear(); }

 private:
  struct Mark {
    double seconds;
    std::int64_t samples;
  };
  std::deque<Mark> marks_;
};

/// One finished step, as reported.
struct StepRecord {
  std::int64_t epoch = 0, step = 0;  ///< 1-based, the step within the whole training
  std::int64_t samples = 0;
  double learning_rate = 0;  ///< of the first group of parameters
  Means means;
  std::optional<double> gradient_norm;
  std::optional<double> loss_scale = {};  ///< fp16 only
  bool skipped = false;                   ///< the gradients overflowed under that scale
  std::vector<std::pair<std::string, double>> group_rates =
      {};  ///< of the groups after the first, by name
};

/// Tells the run what training does: progress at every step, metrics every few steps and at the end
/// of an epoch, and one line an epoch for the person who watches.
class TrainingLog {
 public:
  /// Seconds on a clock that only goes forward.
  using Clock = std::function<double()>;

  struct Options {
    std::int64_t epochs = 0, steps = 0;
    std::int64_t log_every = 1;                   ///< steps between the metrics of single steps
    std::string unit;                             ///< "images"
    std::int64_t budget_bytes = 0;                ///< the device's memory; 0: unknown
    std::function<std::int64_t()> memory_in_use;  ///< empty: unknown
    std::int64_t samples_in_unit = 1;             ///< of a batch: an episode has several
  };
  /// `context` must outlive this.
  TrainingLog(runner::RunContext& context, Options options, Clock clock);

  /// The training continues after `step`, which this log has not seen.
  void resume_after(std::int64_t step) { first_step_ = step; }
  void begin_epoch();
  void step(const StepRecord& record);
  /// A line for the person who watches.
  void say(const std::string& line);
  void validated_batch(std::int64_t epoch, std::int64_t batch, std::int64_t batches);
  /// `last` is the epoch's last step, `skipped` the number of its steps that were; `validation` is
  /// empty where none took place.
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
  std::int64_t first_step_ = 0;  // done before this log began
  Throughput throughput_;
};

/// What has been measured of the epoch that is under way.
struct EpochSoFar {
  Means means;
  std::int64_t skipped_steps = 0;
  StepRecord last;  ///< the latest step; its own means are not kept when it is saved
  std::optional<double> usual_loss = {};  ///< of the steps of this epoch and those before
};

/// For a checkpoint; numbers keep their bits.
nlohmann::json to_json(const EpochSoFar& epoch);
/// Throws std::runtime_error for what to_json() does not make.
EpochSoFar epoch_so_far_from_json(const nlohmann::json& json);

// How good weights were on the validation data, as their checkpoint remembers it.

/// JSON: {"loss": 0.25, "accuracy": 0.9, …}, without numbers that are not finite.
std::string validation_text(const Means& validation);

/// What `about`, the texts beside weights, says under "validation", by name; empty where it says
/// nothing that can be understood.
std::map<std::string, double> validation_scores(const std::map<std::string, std::string>& about);

}  // namespace stages
