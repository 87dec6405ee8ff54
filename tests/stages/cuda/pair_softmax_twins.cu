#include "tests/stages/cuda/pair_softmax_twins.h"

#include <cmath>
#include <limits>
#include <stdexcept>

#include <cuda_runtime.h>

#include "stages/contrastive/launch_pair_softmax.h"
#include "stages/contrastive/loop_pair_softmax.h"
#include "stages/contrastive/tiles.h"

namespace {

void check(cudaError_t status) {
  if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
}

/// Numbers that both the CPU and the GPU read and write.
template <typename T>
class Shared {
 public:
  Shared(std::size_t size, T value) : size_(size) {
    check(cudaMallocHost(&data_, std::max<std::size_t>(size, 1) * sizeof(T)));
    for (std::size_t i = 0; i < size; ++i) data_[i] = value;
  }
  ~Shared() { cudaFreeHost(data_); }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  T* begin() const { return data_; }
  std::vector<double> values() const { return {data_, data_ + size_}; }

 private:
  const std::size_t size_;
  T* data_ = nullptr;
};

/// Like Shared, but in the CPU's memory.
template <typename T>
class Own {
 public:
  Own(std::size_t size, T value) : data_(size, value) {}

  T* begin() { return data_.data(); }
  std::vector<double> values() const { return {data_.begin(), data_.end()}; }

 private:
  std::vector<T> data_;
};

template <typename T>
T product_of(std::int64_t row, std::int64_t column) {
  return static_cast<T>(
      std::sin(0.37 * static_cast<double>(row) + 1.7 * static_cast<double>(column)));
}

template <template <typename> class Memory, typename T, typename Sums, typename Gradient>
PairResults results(std::int64_t pairs, const std::vector<std::int64_t>& group, std::int64_t side,
                    const Sums& add_sums, const Gradient& take_gradient) {
  const auto count = static_cast<std::size_t>(pairs);
  constexpr T kNothing = -std::numeric_limits<T>::infinity();
  Memory<T> row_largest(count, kNothing), row_sum(count, 0), column_largest(count, kNothing),
      column_sum(count, 0), right(count, 0), by_scale(count, 0), of_rows(count, 0),
      of_columns(count, 0), share(count, 0), factor(1, T(14.3)), weight(1, T(0.25)),
      products(static_cast<std::size_t>(side * side), 0);
  Memory<std::int64_t> groups(count, 0);
  for (std::size_t i = 0; i < group.size(); ++i) {
    T size = 0;
    for (const std::int64_t other : group) size += other == group[i] ? 1 : 0;
    share.begin()[i] = 1 / size;
    groups.begin()[i] = group[i];
  }
  stages::RightPairs<T> pairs_right;
  if (!group.empty()) pairs_right = {groups.begin(), share.begin()};
  const auto filled = [&](std::int64_t row, std::int64_t rows, std::int64_t column,
                          std::int64_t columns) {
    for (std::int64_t i = 0; i < rows * columns; ++i)
      products.begin()[i] = product_of<T>(row + i / columns, column + i % columns);
    return stages::PairTile<T>{products.begin(), row, rows, column, columns, factor.begin()};
  };
  const stages::PairSums<T> sums{row_largest.begin(), row_sum.begin(), column_largest.begin(),
                                 column_sum.begin(), right.begin()};
  stages::for_each_tile(pairs, pairs, side, [&](auto row, auto rows, auto column, auto columns) {
    add_sums(filled(row, rows, column, columns), pairs_right, sums);
  });
  for (std::int64_t i = 0; i < pairs; ++i) {
    of_rows.begin()[i] = sums.of_row(i).value();
    of_columns.begin()[i] = sums.of_column(i).value();
  }
  const stages::PairGradient<T> gradient{of_rows.begin(), of_columns.begin(), weight.begin(),
                                         by_scale.begin()};
  PairResults all;
  stages::for_each_tile(pairs, pairs, side, [&](auto row, auto rows, auto column, auto columns) {
    take_gradient(filled(row, rows, column, columns), pairs_right, gradient);
    all.gradients.insert(all.gradients.end(), products.begin(), products.begin() + rows * columns);
  });
  all.row_largest = row_largest.values();
  all.row_sum = row_sum.values();
  all.column_largest = column_largest.values();
  all.column_sum = column_sum.values();
  all.right = right.values();
  all.by_scale = by_scale.values();
  return all;
}

template <typename T>
PairResults in_type_on_gpu(std::int64_t count, const std::vector<std::int64_t>& group,
                           std::int64_t tile) {
  return results<Shared, T>(
      count, group, tile,
      [](const auto& products, const auto& right, const auto& sums) {
        stages::launch_pair_sums<T>(products, right, sums, nullptr);
        check(cudaDeviceSynchronize());
      },
      [](const auto& products, const auto& right, const auto& gradient) {
        stages::launch_pair_gradient<T>(products, right, gradient, nullptr);
        check(cudaDeviceSynchronize());
      });
}

template <typename T>
PairResults in_type_on_cpu(std::int64_t count, const std::vector<std::int64_t>& group,
                           std::int64_t tile) {
  return results<Own, T>(
      count, group, tile,
      [](const auto& products, const auto& right, const auto& sums) {
        stages::loop_pair_sums<T>(products, right, sums);
      },
      [](const auto& products, const auto& right, const auto& gradient) {
        stages::loop_pair_gradient<T>(products, right, gradient);
      });
}

}  // namespace

PairResults pairs_on_gpu(std::int64_t count, const std::vector<std::int64_t>& group,
                         std::int64_t tile, bool is_double) {
  return is_double ? in_type_on_gpu<double>(count, group, tile)
                   : in_type_on_gpu<float>(count, group, tile);
}

PairResults pairs_on_cpu(std::int64_t count, const std::vector<std::int64_t>& group,
                         std::int64_t tile, bool is_double) {
  return is_double ? in_type_on_cpu<double>(count, group, tile)
                   : in_type_on_cpu<float>(count, group, tile);
}
