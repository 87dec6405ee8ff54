#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace stages {

/// Which of the classes that a network was trained on a test set has, by their names.
class TestedClasses {
 public:
  /// Throws runner::StageError, kLabelOutOfRange, for classes that are not in `trained`, and where
  /// a name stands for two of them.
  TestedClasses(const std::vector<std::string>& tested, const std::vector<std::string>& trained);

  /// The network's numbers for the test set's `labels` (n) int64, each of which is one of `tested`.
  at::Tensor trained_labels(const at::Tensor& labels) const;
  /// By trained class: does the test set know it? Empty where all are known.
  std::vector<bool> present() const { return absent_.empty() ? std::vector<bool>{} : present_; }
  /// "2 of 12 classes are absent from the test set, and from all means over classes: 'a', 'b'";
  /// empty where none is.
  std::string absent_text() const;

 private:
  std::vector<std::int64_t> trained_label_;  // by tested label; empty: they are the same
  std::vector<bool> present_;
  std::vector<std::string> absent_;
};

}  // namespace stages
