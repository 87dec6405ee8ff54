#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace stages {

/// How often samples of each class were predicted to be of each class. Memory grows with what was added, not with the
/// square of the classes.
class ConfusionMatrix {
 public:
  explicit ConfusionMatrix(std::int64_t classes);

  void add(std::int64_t truth, std::int64_t predicted);

  std::int64_t classes() const { return static_cast<std::int64_t>(support_.size()); }
  std::int64_t count(std::int64_t truth, std::int64_t predicted) const;
  /// Samples of the class.
  std::int64_t support(std::int64_t truth) const { return support_.at(static_cast<std::size_t>(truth)); }
  /// Samples taken for the class.
  std::int64_t predictions(std::int64_t predicted) const {
    return predictions_.at(static_cast<std::size_t>(predicted));
  }
  std::int64_t correct() const { return correct_; }
  std::int64_t samples() const { return samples_; }

 private:
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> counts_;
  std::vector<std::int64_t> support_, predictions_;
  std::int64_t correct_ = 0, samples_ = 0;
};

}  // namespace stages
