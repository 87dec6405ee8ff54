#include "stages/train/range_test.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "runner/shared/stage/stage.h"

namespace stages {

std::int64_t steepest_descent(const std::vector<double>& values, std::int64_t begin,
                              std::int64_t end) {
  std::int64_t found = -1;
  double steepest = 0;
  for (std::int64_t i = begin; i < end; ++i) {
    const std::int64_t before = std::max(i - 1, begin), after = std::min(i + 1, end - 1);
    if (before == after) continue;
    const double slope =
        (values[static_cast<std::size_t>(after)] - values[static_cast<std::size_t>(before)]) /
        static_cast<double>(after - before);
    if (slope >= steepest) continue;
    steepest = slope;
    found = i;
  }
  return found;
}

double RangeTest::rate_at(std::int64_t step) const {
  const double share = static_cast<double>(step - 1) / static_cast<double>(options_.steps - 1);
  return options_.first * std::pow(options_.last / options_.first, share);
}

TrainerOptions RangeTest::begin(TrainerOptions options, const std::string& pointer,
                                std::int64_t epoch_steps) {
  pointer_ = pointer;
  learning_rate_ = learning_rate(options.optimizer);
  batch_size_ = options.batch_size;
  options.epochs = (options_.steps + epoch_steps - 1) / epoch_steps;
  options.schedule = RangeSchedule{.first_factor = options_.first / learning_rate_,
                                   .last_factor = options_.last / learning_rate_,
                                   .length = options_.steps};
  options.average.reset();
  options.swa.reset();
  options.average_best = 0;
  options.patience.reset();
  options.enough_accuracy.reset();
  options.keep = Keep::kLast;
  options.checkpoint.every = {};
  options.log_every = 1;
  options.log_gradients_every = 0;
  return options;
}

void RangeTest::see(const Place& place, std::string_view name, const at::Tensor& tensor) {
  if (place.phase != "loss" || name != "loss") return;
  if (!points_.empty() && points_.back().step == place.step) return;
  constexpr double kKept = 0.98, kDiverged = 4;
  const double loss = tensor.item<double>();
  const auto seen = static_cast<double>(points_.size() + 1);
  average_ = kKept * average_ + (1 - kKept) * loss;
  const double smoothed = average_ / (1 - std::pow(kKept, seen));
  double least = smoothed;
  for (const Point& point : points_) least = std::min(least, point.smoothed);
  points_.push_back({place.step, rate_at(place.step), loss, smoothed});
  has_diverged_ |= points_.size() > 1 && smoothed > kDiverged * least;
  if (has_diverged_ || place.step >= options_.steps) throw runner::Canceled{};
}

nlohmann::ordered_json RangeTest::answer() const {
  using Json = nlohmann::ordered_json;
  constexpr std::int64_t kFirst = 10, kLast = 1;
  Json points = Json::array();
  std::vector<double> losses;
  for (const Point& point : points_) {
    points.push_back({{"step", point.step},
                      {"learning_rate", point.learning_rate},
                      {"loss", point.loss},
                      {"smoothed_loss", point.smoothed}});
    losses.push_back(point.smoothed);
  }
  const auto end = static_cast<std::int64_t>(losses.size()) - kLast;
  const std::int64_t found = steepest_descent(losses, kFirst, end);
  return {{"stage", pointer_},
          {"learning_rate", learning_rate_},
          {"batch_size", batch_size_},
          {"diverged", has_diverged_},
          {"suggestion",
           found < 0 ? Json() : Json(points_[static_cast<std::size_t>(found)].learning_rate)},
          {"points", std::move(points)}};
}

}  // namespace stages
