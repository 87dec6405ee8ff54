#pragma once

#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <torch/types.h>

#include "stages/artifact/dataset.h"
#include "stages/artifact/targets.h"

/// Points in a plane with two values to predict: far from 0, and on different scales.
class TargetPoints final : public stages::Dataset, public stages::KnownTargets {
 public:
  explicit TargetPoints(std::int64_t size) : size_(size) {}

  stages::DatasetDescription describe() const override {
    return {.size = size_,
            .tensors = {{"image", {2}, torch::kFloat}, {"target", {2}, torch::kDouble}},
            .classes = names};
  }
  std::optional<stages::NamedTensors> sample(std::int64_t, std::int64_t index) const override {
    const auto [x, y] = point(index);
    return stages::NamedTensors{{"image", torch::tensor({x, y}, torch::kFloat)},
                                {"target", target(index)}};
  }
  std::string sample_name(std::int64_t index) const override {
    return "point" + std::to_string(index);
  }
  stages::LoaderOptions loader() const override { return {}; }
  at::Tensor targets() const override {
    std::vector<at::Tensor> rows;
    for (std::int64_t i = 0; tells_targets && i < size_; ++i) rows.push_back(target(i));
    return rows.empty() ? at::Tensor() : torch::stack(rows);
  }

  std::vector<std::string> names = {"age", "weight"};
  bool tells_targets = true;
  bool is_constant = false;  // the first target
  std::int64_t broken = -1;  // a sample with an infinite target

 private:
  static std::pair<double, double> point(std::int64_t index) {
    const double angle = 2.4 * static_cast<double>(index);
    return {std::cos(angle), std::sin(angle)};
  }
  at::Tensor target(std::int64_t index) const {
    const auto [x, y] = point(index);
    const double age = index == broken ? std::numeric_limits<double>::infinity()
                       : is_constant   ? 40
                                       : 40 + 10 * x;
    return torch::tensor({age, 7000 + 300 * y - 100 * x}, torch::kDouble);
  }

  const std::int64_t size_;
};
