#include "stages/train/calibration.h"

#include <string>

#include <torch/types.h>

#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/stage.h"
#include "stages/artifact/temperature.h"

namespace stages {

using runner::ErrorCode;
using runner::StageError;

DecisionFit read_calibration(runner::ConfigReader& reader) {
  runner::ConfigReader& calibration = reader.section("calibration");
  DecisionFit fit;
  calibration.read("temperature", fit.temperature);
  calibration.read("cut_points", fit.cut_points);
  calibration.read("sensitivity", fit.sensitivity);
  return fit;
}

void check_calibration(const DecisionFit& fit, std::int64_t classes, const Dataset* validation) {
  if (!fit.fits_anything()) return;
  if (!validation) {
    throw StageError(ErrorCode::kTooFewSamples,
                     "calibration needs validation data, but there is none")
        .at("/calibration")
        .with_help(
            "give the data a validation part, such as data.split={train: 0.7, validation: 0.1, "
            "test: 0.2}, or remove the calibration");
  }
  constexpr std::int64_t kTwo = 2;
  if (fit.sensitivity && classes != kTwo) {
    throw StageError(
        ErrorCode::kOptionConflict,
        "calibration.sensitivity is for two classes, but the data has " + std::to_string(classes))
        .at("/calibration/sensitivity")
        .with_help("set calibration.sensitivity: null");
  }
}

at::Tensor calibration_rows(const at::Tensor& class_logits, const at::Tensor& labels) {
  const at::Tensor logits = class_logits.detach().to(at::kFloat);
  return torch::cat({logits, labels.to(logits.device(), at::kFloat).unsqueeze(1)}, 1);
}

std::int64_t calibration_bytes(const DecisionFit& fit, std::int64_t classes) {
  if (!fit.fits_anything()) return 0;
  // The rows, plus all samples' logits in float64, which the fit copies.
  return (classes + 1) * static_cast<std::int64_t>(sizeof(float)) +
         2 * classes * static_cast<std::int64_t>(sizeof(double)) +
         static_cast<std::int64_t>(sizeof(ScoredClass));
}

}  // namespace stages
