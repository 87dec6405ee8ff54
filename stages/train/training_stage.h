#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "runner/error/result.h"
#include "runner/stage/stage.h"
#include "stages/artifact/model.h"
#include "stages/train/trainer.h"
#include "stages/train/training_step.h"

namespace runner {
class ConfigReader;
}

namespace stages {

/// What one kind of training brings beside its schema; its own options are in `make_step`.
struct TrainingKind {
  /// The step that is trained, of a model that runs on such data; both outlive it. Throws runner::StageError where the
  /// model or the data do not suit the kind: that is the place of its checks, and the first thing that is done.
  std::function<std::unique_ptr<TrainingStep>(const Model& model, const TrainingData& data)> make_step;
  /// The scores of the step that the option `monitor` may name beside "loss". More of them is better.
  std::vector<std::string_view> scores = {};
  /// An epoch sees as many samples of every class (balanced_samples.h).
  bool balances_classes = false;
};

/// The stage of a kind of training. All of them plan, certify, train, accumulate, warm-start, resume, validate and take
/// over what an earlier run has trained in this one way. Their ports are train, validation (optional), model and
/// memory; out comes a checkpoint.
///
///   runner::Result<std::unique_ptr<runner::Stage>> create(runner::ConfigReader& reader) {
///     double margin = 0;
///     reader.read("margin", margin);
///     return make_training_stage(reader, {.make_step = [margin](const Model& model, const TrainingData& data) {
///       return std::make_unique<MarginStep>(model, margin);
///     }});
///   }
///
/// After the kind's own options it reads those that all kinds have: the schema of train.supervised says what they mean,
/// and those of other kinds refer to it.
runner::Result<std::unique_ptr<runner::Stage>> make_training_stage(runner::ConfigReader& reader, TrainingKind kind);

}  // namespace stages
