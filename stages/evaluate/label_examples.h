#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "stages/artifact/dataset.h"
#include "stages/evaluate/predictor.h"

namespace stages {

/// Test samples with any number of labels: their outputs, their labels in the order of the trained
/// labels, and the thresholds.
struct LabeledSamples {
  ClassifiedSamples samples;  ///< logits (n, labels) float32, labels (n, labels) uint8, contiguous
  std::vector<std::string> labels;
  std::vector<bool> present = {};  ///< whether each label occurs in the test data; empty: all do
  std::vector<double> thresholds;
};

/// The names of a sample's labels and of those predicted for it, in the order of the labels.
struct NamedLabels {
  std::vector<std::string> labels, predicted;
};
NamedLabels named_labels(const LabeledSamples& tested, std::size_t row);

/// Writes example images (write_examples()): up to `count` samples with the largest loss, and up to
/// `count` others with the smallest. The loss is the mean binary cross-entropy of a sample's
/// labels. Their facts are "labels", "predicted" and "loss". Writes nothing if `count` is 0.
void write_label_examples(const LabeledSamples& tested, const Dataset& dataset, std::int64_t count,
                          const std::filesystem::path& folder);

}  // namespace stages
