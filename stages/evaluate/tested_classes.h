#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace stages {

/// Maps the classes of a test set to the classes that a network was trained on, by name.
class TestedClasses {
 public:
  /// Throws runner::StageError, kLabelOutOfRange, for classes that are not in `trained`, and if one
  /// name stands for two classes.
  TestedClasses(const std::vector<std::string>& tested, const std::vector<std::string>& trained);

  /// The network's class indices for the test set's `labels` (n) int64, which index `tested`.
  at::Tensor trained_labels(const at::Tensor& labels) const;
  /// By trained class: does the test set have it? Empty if it has all of them.
  std::vector<bool> present() const { return absent_.empty() ? std::vector<bool>{} : present_; }
  /// "2 of 12 classes are absent from the test set, and from all means over classes: 'a', 'b'";
  /// empty if none is.
  std::string absent_text() const;

 private:
  std::vector<std::int64_t> trained_label_;  // by tested label; empty: both numberings are the same
  std::vector<bool> present_;
  std::vector<std::string> absent_;
};

}  // namespace stages
