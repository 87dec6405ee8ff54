#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "stages/evaluate/predictor.h"

namespace stages {

/// A sample with a label that is probably wrong.
struct SuspectedLabel {
  std::int64_t row = 0;
  std::int64_t label = 0, suggested = 0;
  double label_probability = 0, suggested_probability = 0;
};

/// Returns the samples whose predictions contradict their labels, by confident learning (Northcutt
/// et al. 2021, arXiv:1911.00068). The threshold of a class is the mean probability of that class
/// over the samples with its label. A sample is suspected if its label is not the predicted class
/// and, among the classes whose probability reaches their threshold, the most probable one is not
/// its label. The result is sorted by how much more probable the suggested class is than the label.
/// `logits` (n, classes) are finite and of any floating-point type, and `labels` (n) int64 in [0,
/// classes), both on the CPU.
std::vector<SuspectedLabel> suspected_labels(const at::Tensor& logits, const at::Tensor& labels);

/// Returns a CSV with a line for each suspected label:
/// name,label,suggested,label_probability,suggested_probability.
std::string suspected_labels_csv(const std::vector<SuspectedLabel>& suspected,
                                 const ClassifiedSamples& samples,
                                 const std::vector<std::string>& classes);

}  // namespace stages
