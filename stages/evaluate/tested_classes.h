#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace stages {

/// Maps the classes of a test set by name to the classes that a network was trained on.
class TestedClasses {
 public:
  /// Throws runner::StageError (kLabelOutOfRange) if a class is not in `trained`, or if two classes
  /// have the same name.
  TestedClasses(const std::vector<std::string>& tested, const std::vector<std::string>& trained);

  /// Converts the test set's `labels` (n) int64, which are indices into `tested`, to the network's
  /// class indices.
  at::Tensor trained_labels(const at::Tensor& labels) const;
  /// For each trained class, whether the test set contains it. Empty if it contains all of them.
  std::vector<bool> present() const { return absent_.empty() ? std::vector<bool>{} : present_; }
  /// Returns "2 of 12 classes are absent from the test set, and so left out of all means over
  /// classes: 'a', 'b'"; empty if no class is absent.
  std::string absent_text() const;

 private:
  std::vector<std::int64_t> trained_label_;  // by tested label; empty: the labels are the same
  std::vector<bool> present_;
  std::vector<std::string> absent_;
};

}  // namespace stages
