#include "stages/artifact/label_sets.h"

#include <algorithm>

namespace stages {

bool has_label_sets(const std::vector<TensorSpec>& tensors, std::int64_t classes) {
  const auto find = [&](std::string_view name) {
    return std::ranges::find(tensors, name, &TensorSpec::name);
  };
  const auto labels = find(kLabelSet);
  return classes > 0 && labels != tensors.end() && labels->shape == std::vector{classes} &&
         find("label") == tensors.end();
}

bool has_label_sets(const DatasetDescription& data) {
  return has_label_sets(data.tensors, static_cast<std::int64_t>(data.classes.size()));
}

std::vector<std::int64_t> label_counts(const Dataset& data) {
  const auto* counted = dynamic_cast<const CountedLabels*>(&data);
  return counted ? counted->label_counts() : std::vector<std::int64_t>();
}

}  // namespace stages
