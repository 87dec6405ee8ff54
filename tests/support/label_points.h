#pragma once

#include <cmath>
#include <string>
#include <vector>

#include <torch/types.h>

#include "stages/artifact/label_sets.h"

/// Points in a plane with any of three labels: in the right half, in the upper half, near the
/// middle.
class LabelPoints final : public stages::Dataset, public stages::CountedLabels {
 public:
  explicit LabelPoints(std::int64_t size) : size_(size) {}

  stages::DatasetDescription describe() const override {
    return {.size = size_,
            .tensors = {{"image", {2}, torch::kFloat}, {"labels", {3}, torch::kByte}},
            .classes = class_names};
  }
  std::optional<stages::NamedTensors> sample(std::int64_t, std::int64_t index) const override {
    const double angle = 2.4 * static_cast<double>(index),
                 radius = 0.2 + static_cast<double>(index % 5) / 4;
    const double x = radius * std::cos(angle), y = radius * std::sin(angle);
    at::Tensor labels = torch::zeros({3}, torch::kByte);
    if (x > 0 && !has_no_labels) labels[0] = 1;
    if (y > 0 && !has_no_labels) labels[1] = 1;
    if (radius < 0.5 && !has_no_labels) labels[2] = index == broken ? 2 : 1;
    return stages::NamedTensors{{"image", torch::tensor({x, y}, torch::kFloat)},
                                {"labels", labels}};
  }
  std::string sample_name(std::int64_t index) const override {
    return "point" + std::to_string(index);
  }
  stages::LoaderOptions loader() const override { return {}; }
  std::vector<std::int64_t> label_counts() const override {
    std::vector<std::int64_t> counts(3);
    for (std::int64_t i = 0; tells_counts && i < size_; ++i)
      for (std::int64_t label = 0; label < 3; ++label)
        counts[static_cast<std::size_t>(label)] +=
            (*sample(0, i)).at("labels")[label].item<std::int64_t>();
    return tells_counts ? counts : std::vector<std::int64_t>();
  }

  std::vector<std::string> class_names = {"right", "upper", "middle"};
  bool tells_counts = true;
  bool has_no_labels = false;  // for all samples
  std::int64_t broken = -1;    // a sample with a 2 instead of a 1

 private:
  const std::int64_t size_;
};
