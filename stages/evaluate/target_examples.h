#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "stages/artifact/dataset.h"
#include "stages/evaluate/regression_metrics.h"

namespace stages {

/// Writes example images (write_examples()): up to `count` samples with the largest errors, and up
/// to `count` others with the smallest. With several targets, the error of a sample is the mean of
/// its absolute errors, each divided by the entry of `scales` for its target, since targets may
/// have different units; without `scales`, nothing is divided. Each example has the fact "targets":
/// [{"target", "value", "prediction"}]. `names` are the names of the samples. Writes nothing if
/// `count` is 0.
void write_target_examples(const std::vector<std::string>& names, const PredictedTargets& tested,
                           const std::vector<double>& scales, const Dataset& dataset,
                           std::int64_t count, const std::filesystem::path& folder);

}  // namespace stages
