#include "stages/evaluate/confusion_matrix.h"

namespace stages {

ConfusionMatrix::ConfusionMatrix(std::int64_t classes)
    : support_(static_cast<std::size_t>(classes)), predictions_(static_cast<std::size_t>(classes)) {}

void ConfusionMatrix::add(std::int64_t truth, std::int64_t predicted) {
  ++support_.at(static_cast<std::size_t>(truth));
  ++predictions_.at(static_cast<std::size_t>(predicted));
  ++counts_[{truth, predicted}];
  ++samples_;
  if (truth == predicted) ++correct_;
}

std::int64_t ConfusionMatrix::count(std::int64_t truth, std::int64_t predicted) const {
  const auto found = counts_.find({truth, predicted});
  return found == counts_.end() ? 0 : found->second;
}

}  // namespace stages
