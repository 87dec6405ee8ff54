#pragma once

#include <optional>

namespace stages {

/// How large a number of the steps before was (their losses, say), by which one is seen to be out of all proportion:
/// more than `factor` times the largest so far. What is usual grows slowly, so that a training that diverges step by
/// step is noticed too. Of the first number nothing is usual yet: it may be up to a million.
class UsualSize {
 public:
  explicit UsualSize(double factor) : factor_(factor) {}

  /// False, and nothing is learnt of it, where `number` is out of proportion.
  bool observe(double number);
  bool is_proportionate(double number) const;

  /// nullopt before the first number.
  const std::optional<double>& usual() const { return usual_; }
  void set_usual(std::optional<double> usual) { usual_ = usual; }

 private:
  double factor_;
  std::optional<double> usual_;
};

}  // namespace stages
