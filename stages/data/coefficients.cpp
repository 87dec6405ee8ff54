#include "stages/data/coefficients.h"

#include <algorithm>
#include <cmath>

namespace stages {
namespace {

double triangle(double x) { return std::max(0.0, 1.0 - std::abs(x)); }

double cubic(double x) {
  constexpr double a = -0.5;
  x = std::abs(x);
  const double near = ((a + 2.0) * x - (a + 3.0)) * x * x + 1, far = (((x - 5) * x + 8) * x - 4) * a;
  return x < 1.0 ? near : x < 2.0 ? far : 0.0;
}

double support_of(Interpolation interpolation) {
  switch (interpolation) {
    case Interpolation::kBilinear:
      return 1.0;
    case Interpolation::kBicubic:
      return 2.0;
  }
  return 0.0;
}

// Compiled for processors that do four at once too. None of them has a product and a sum in one rounding: that would be
// other bits.
#define RETORT_FOR_EACH_PROCESSOR __attribute__((target_clones("avx2", "default")))

/// Puts in place of each distance the weight of a pixel that is so far away.
RETORT_FOR_EACH_PROCESSOR void weigh(Interpolation interpolation, double* distances, std::size_t count) {
  switch (interpolation) {
    case Interpolation::kBilinear:
      for (std::size_t i = 0; i < count; ++i) distances[i] = triangle(distances[i]);
      return;
    case Interpolation::kBicubic:
      for (std::size_t i = 0; i < count; ++i) distances[i] = cubic(distances[i]);
      return;
  }
}

/// Sets each `stride` weights' coefficients: their shares of their sum.
RETORT_FOR_EACH_PROCESSOR void share(const double* weights, std::size_t stride, Coefficients& result) {
  std::int32_t* values = result.values.data();
  for (const Span span : result.spans) {
    double sum = 0.0;
    for (int i = 0; i < span.count(); ++i) sum += weights[i];
    if (sum == 0.0) sum = 1.0;
    for (std::size_t i = 0; i < stride; ++i) {
      const double scaled = weights[i] / sum * (1 << kCoefficientBits);
      values[i] = static_cast<std::int32_t>(scaled + (scaled < 0 ? -0.5 : 0.5));
    }
    for (auto i = static_cast<std::size_t>(span.count()); i < stride; ++i) values[i] = 0;
    weights += stride;
    values += stride;
  }
}

#undef RETORT_FOR_EACH_PROCESSOR

}  // namespace

Coefficients coefficients_of(Interpolation interpolation, int from, std::int64_t to, std::int64_t first, int count) {
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const double spread = std::max(scale, 1.0), shrink = 1.0 / spread;
  const double support = support_of(interpolation) * spread;
  const auto center_of = [&](std::size_t i) {
    return (static_cast<double>(first + static_cast<std::int64_t>(i)) + 0.5) * scale;
  };
  Coefficients result;
  result.spans.reserve(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    const double center = center_of(i);
    result.spans.push_back({std::max(static_cast<int>(center - support + 0.5), 0),
                            std::min(static_cast<int>(center + support + 0.5), from)});
    result.most = std::max(result.most, result.spans.back().count());
  }

  // So many numbers fill the lanes of registers. Those after a span's end are computed and left out.
  constexpr std::size_t kLanes = 4;
  result.stride = (static_cast<std::size_t>(result.most) + kLanes - 1) / kLanes * kLanes;
  result.values.resize(result.stride * result.spans.size());
  std::vector<double> weights(result.values.size());
  for (std::size_t i = 0; i < result.spans.size(); ++i) {
    const double begin = result.spans[i].begin, center = center_of(i);
    for (std::size_t j = 0; j < result.stride; ++j) {
      weights[i * result.stride + j] = (static_cast<double>(j) + begin - center + 0.5) * shrink;
    }
  }
  weigh(interpolation, weights.data(), weights.size());
  share(weights.data(), result.stride, result);
  return result;
}

}  // namespace stages
