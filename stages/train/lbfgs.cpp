#include "stages/train/lbfgs.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include <torch/types.h>
#include <torch/utils.h>

namespace stages {
namespace {

constexpr double kDecrease = 1e-4, kFlatter = 0.9;  // constants of the strong Wolfe conditions
constexpr int kEvaluations = 25;                    // maximum per line search
constexpr double kGrowth = 4;                       // factor for a step that is too short

double product(const at::Tensor& a, const at::Tensor& b) { return torch::dot(a, b).item<double>(); }
double largest(const at::Tensor& x) { return x.abs().max().item<double>(); }

/// A point, with the function's value and gradient there.
struct Evaluated {
  at::Tensor x, gradient;
  double value = 0;
};

Evaluated evaluated(at::Tensor x, const ConvexFunction& function) {
  Evaluated point{std::move(x), {}};
  point.gradient = torch::empty_like(point.x);
  point.value = function(point.x, point.gradient);
  return point;
}

/// Returns the amount by which rounding may change a value.
double rounding_of(double value, at::ScalarType type) {
  const double epsilon = type == at::kFloat ? std::numeric_limits<float>::epsilon()
                                            : std::numeric_limits<double>::epsilon();
  return 4 * epsilon * std::abs(value);
}

/// Searches along `direction`, in which the function falls with `slope` at `from`, for a point that
/// satisfies the strong Wolfe conditions. Returns nullopt if rounding errors hide such a point.
std::optional<Evaluated> search_line(const Evaluated& from, const at::Tensor& direction,
                                     double slope, double step, const ConvexFunction& function) {
  const double slack = rounding_of(from.value, from.x.scalar_type());
  double low = 0, slope_at_low = slope;
  std::optional<double> high;
  double slope_at_high = 0;
  for (int count = 0; count < kEvaluations; ++count) {
    Evaluated point = evaluated(from.x + direction * step, function);
    const double there = product(point.gradient, direction);
    const bool descends = point.value <= from.value + kDecrease * step * slope + slack;
    if (descends && std::abs(there) <= -kFlatter * slope) return point;
    const bool is_short = descends && there < 0;
    if (is_short) {
      low = step;
      slope_at_low = there;
    } else {
      high = step;
      slope_at_high = there;
    }
    if (!high) {
      step *= kGrowth;
      continue;
    }
    // The point between the two at which the slope crosses zero, unless that is too close to
    // either.
    const double share = slope_at_high > 0 ? slope_at_low / (slope_at_low - slope_at_high) : 0.5;
    step = low + (*high - low) * std::clamp(share, 0.1, 0.9);
  }
  return std::nullopt;
}

/// The latest steps and how they changed the gradient: an approximation of the inverse Hessian.
class History {
 public:
  explicit History(std::int64_t size) : size_(static_cast<std::size_t>(size)) {}

  void add(at::Tensor step, at::Tensor change) {
    const double curvature = product(step, change);
    if (!(curvature > 0)) return;  // lost in rounding
    pairs_.push_back({std::move(step), std::move(change), curvature});
  }
  /// Makes room for a pair before its vectors exist.
  void make_room() {
    if (pairs_.size() == size_) pairs_.pop_front();
  }
  void clear() { pairs_.clear(); }
  bool is_empty() const { return pairs_.empty(); }

  /// Returns the direction from a point with this gradient: the two-loop recursion of Nocedal
  /// (1980).
  at::Tensor direction(const at::Tensor& gradient) const {
    at::Tensor result = -gradient;
    std::vector<double> shares(pairs_.size());
    for (std::size_t i = pairs_.size(); i-- > 0;) {
      shares[i] = product(pairs_[i].step, result) / pairs_[i].curvature;
      result.sub_(pairs_[i].change, shares[i]);
    }
    if (!pairs_.empty()) {
      const Pair& latest = pairs_.back();
      result.mul_(latest.curvature / product(latest.change, latest.change));
    }
    for (std::size_t i = 0; i < pairs_.size(); ++i) {
      const double other = product(pairs_[i].change, result) / pairs_[i].curvature;
      result.add_(pairs_[i].step, shares[i] - other);
    }
    return result;
  }

 private:
  struct Pair {
    at::Tensor step, change;
    double curvature;
  };
  const std::size_t size_;
  std::deque<Pair> pairs_;
};

}  // namespace

Minimum minimize(const at::Tensor& start, const ConvexFunction& function,
                 const LbfgsOptions& options) {
  const torch::NoGradGuard no_graph;
  Evaluated at = evaluated(start.clone(), function);
  History history(options.history);
  std::int64_t iterations = 0;
  while (iterations < options.max_iterations && largest(at.gradient) > options.tolerance) {
    at::Tensor direction = history.direction(at.gradient);
    double slope = product(at.gradient, direction);
    if (!(slope < 0) && !history.is_empty()) {
      history.clear();
      direction = -at.gradient;
      slope = product(at.gradient, direction);
    }
    const double first =
        history.is_empty() ? std::min(1.0, 1 / at.gradient.abs().sum().item<double>()) : 1;
    std::optional<Evaluated> next = search_line(at, direction, slope, first, function);
    if (!next && history.is_empty()) break;
    if (!next) {
      history.clear();
      continue;
    }
    ++iterations;
    history.make_room();
    history.add(next->x - at.x, next->gradient - at.gradient);
    at = *std::move(next);
  }
  return {at.x, at.value, largest(at.gradient), iterations};
}

std::int64_t lbfgs_vectors(std::int64_t history) {
  // A pair for each step; two points with their gradients; the direction; three intermediate sums.
  return 2 * history + 8;
}

}  // namespace stages
