#include "stages/data/resize.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <optional>
#include <vector>

#include "stages/data/weighted_sums.h"

namespace stages {
namespace {

/// The pass along rows: row y of the part to be resized becomes the pixels of `window`.
class AlongRows {
 public:
  AlongRows(int from, std::int64_t to, const Box& window, Interpolation interpolation)
      : first_(window.left), count_(window.width) {
    if (to == from) return;
    sums_.emplace(coefficients_of(interpolation, from, to, window.left, window.width));
    first_ = sums_->first();
    count_ = sums_->count();
  }

  /// The source pixels it needs of a row.
  int first() const { return first_; }
  std::size_t bytes() const { return std::size_t{3} * static_cast<std::size_t>(count_); }

  /// Makes `count` rows, however many: `source(i)` begins at pixel first() of the ith, and `result(i)` is its place.
  void make(int count, const auto& source, const auto& result) {
    SumsAlongRows::Sources sources;
    SumsAlongRows::Results results;
    for (int done = 0; done < count; done += SumsAlongRows::kRows) {
      const int rows = std::min(count - done, SumsAlongRows::kRows);
      for (int i = 0; i < rows; ++i) {
        sources[static_cast<std::size_t>(i)] = source(done + i);
        results[static_cast<std::size_t>(i)] = result(done + i);
        if (!sums_) std::memcpy(result(done + i), source(done + i), bytes());
      }
      if (sums_) (*sums_)(sources, results, rows);
    }
  }

 private:
  int first_, count_;
  std::optional<SumsAlongRows> sums_;  // none: the pass is left out
};

/// Adds up the rows that row `y` of the result is made from; `place(i)` is where source row i lies.
void add_rows_at(const Coefficients& sums, int y, std::vector<const std::uint8_t*>& rows, const auto& place,
                 std::size_t bytes, std::uint8_t* result) {
  rows.clear();
  const Span span = sums.spans[static_cast<std::size_t>(y)];
  for (int i = span.begin; i < span.end; ++i) rows.push_back(place(i));
  add_rows(sums, y, rows.data(), bytes, result);
}

}  // namespace

Image resize(const Image& image, const Box& from, std::int64_t width, std::int64_t height, const Box& window,
             Interpolation interpolation) {
  assert(from.left >= 0 && from.top >= 0 && from.left + from.width <= image.width &&
         from.top + from.height <= image.height);
  assert(window.width > 0 && window.height > 0 && window.left + window.width <= width &&
         window.top + window.height <= height);
  AlongRows along_rows(from.width, width, window, interpolation);
  const auto source_row = [&](int y) {
    return image.row(from.top + y) + std::ptrdiff_t{3} * (from.left + along_rows.first());
  };
  Image result = Image::unset(window.width, window.height);
  if (height == from.height) {
    along_rows.make(
        window.height, [&](int y) { return source_row(window.top + y); }, [&](int y) { return result.row(y); });
    return result;
  }

  const Coefficients sums = coefficients_of(interpolation, from.height, height, window.top, window.height);
  std::vector<const std::uint8_t*> rows;
  const std::int64_t shorter = from.height - height, narrower = from.width - width;
  if (shorter > 0 && shorter > 2 * narrower) {
    Image held = Image::unset(static_cast<int>(along_rows.bytes() / 3), SumsAlongRows::kRows);
    for (int y = 0; y < window.height; y += SumsAlongRows::kRows) {
      const int count = std::min(SumsAlongRows::kRows, window.height - y);
      for (int i = 0; i < count; ++i) add_rows_at(sums, y + i, rows, source_row, along_rows.bytes(), held.row(i));
      along_rows.make(
          count, [&](int i) { return held.row(i); }, [&](int i) { return result.row(y + i); });
    }
    return result;
  }
  // Of the resized rows only those are held that one row of the result is made from, and those made with the last of
  // them; row y lies at y modulo their number.
  const int most = sums.most + SumsAlongRows::kRows, last = sums.spans.back().end;
  Image held = Image::unset(window.width, most);
  const auto place = [&](int y) { return held.row(y % most); };
  int next = sums.spans.front().begin;
  for (int y = 0; y < window.height; ++y) {
    next = std::max(next, sums.spans[static_cast<std::size_t>(y)].begin);
    while (next < sums.spans[static_cast<std::size_t>(y)].end) {
      const int count = std::min(SumsAlongRows::kRows, last - next);
      along_rows.make(
          count, [&](int i) { return source_row(next + i); }, [&](int i) { return place(next + i); });
      next += count;
    }
    add_rows_at(sums, y, rows, place, std::size_t{3} * static_cast<std::size_t>(window.width), result.row(y));
  }
  return result;
}

Image resize(const Image& image, int width, int height, Interpolation interpolation) {
  return resize(image, {0, 0, image.width, image.height}, width, height, {0, 0, width, height}, interpolation);
}

}  // namespace stages
