#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "stages/artifact/dataset.h"
#include "stages/artifact/fitted_decision.h"

namespace runner {
class ConfigReader;
}

namespace stages {

/// Reads the option `calibration` of a training stage: what to fit on the validation data.
DecisionFit read_calibration(runner::ConfigReader& reader);

/// Throws runner::StageError if something is to be fitted without validation data, or if `fit` has
/// a sensitivity and the number of classes is not two.
void check_calibration(const DecisionFit& fit, std::int64_t classes, const Dataset* validation);

/// Returns the rows that fitted_decision() takes: the logits (n, classes) of the samples' classes,
/// and their labels (n).
at::Tensor calibration_rows(const at::Tensor& class_logits, const at::Tensor& labels);

/// Returns the number of bytes that a validation sample needs for the fit; 0 if nothing is fitted.
std::int64_t calibration_bytes(const DecisionFit& fit, std::int64_t classes);

}  // namespace stages
