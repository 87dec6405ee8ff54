#pragma once

#include <cstdint>
#include <optional>

namespace runner {
class ConfigReader;
}

namespace stages {

/// When a training is saved, besides at its end, when it is stopped, and where it is better than ever. Whichever comes
/// first counts; nullopt: not by that.
struct SaveRule {
  std::optional<std::int64_t> steps, epochs;
  std::optional<double> minutes;
  bool operator==(const SaveRule&) const = default;
};

/// The option `checkpoint` of a training.
struct SaveOptions {
  SaveRule every;
  std::int64_t keep_last = 1;  ///< of the newest checkpoints, 1 or more
  std::int64_t keep_best = 0;  ///< of those with the best metric
  bool operator==(const SaveOptions&) const = default;
};

/// Reads common.schema.json#/definitions/checkpoint.
SaveOptions read_save_options(runner::ConfigReader& reader);

/// Now, on a clock that only goes forward.
double steady_seconds();

/// Remembers when it was saved last.
class SaveClock {
 public:
  /// `seconds`: now, on a clock that only goes forward.
  SaveClock(SaveRule rule, double seconds) : rule_(rule), seconds_(seconds) {}

  bool is_due(std::int64_t step, double seconds) const {
    return (rule_.steps && step - step_ >= *rule_.steps) ||
           (rule_.minutes && seconds - seconds_ >= 60 * *rule_.minutes);
  }
  bool is_due_after_epoch(std::int64_t epoch) const { return rule_.epochs && epoch % *rule_.epochs == 0; }
  void saved(std::int64_t step, double seconds) {
    step_ = step;
    seconds_ = seconds;
  }

 private:
  const SaveRule rule_;
  std::int64_t step_ = 0;
  double seconds_;
};

}  // namespace stages
