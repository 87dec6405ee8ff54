#include "stages/contrastive/pair_work.h"

#include <limits>
#include <stdexcept>

#include <ATen/Dispatch.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/types.h>

#include "stages/contrastive/launch_pair_softmax.h"
#include "stages/contrastive/loop_pair_softmax.h"
#include "stages/machine/gpu.h"
#include "stages/plan/memory_trace.h"

namespace stages {
namespace {

template <typename T>
T* begin_of(const at::Tensor& x) {
  return x.defined() ? x.mutable_data_ptr<T>() : nullptr;
}
template <typename T>
PairTile<T> lines_of(const TileTensor& tile, const at::Tensor& factor) {
  const at::Tensor& products = tile.products;
  return {begin_of<T>(products), tile.row,         products.size(0),
          tile.column,           products.size(1), begin_of<T>(factor)};
}
template <typename T>
RightPairs<T> lines_of(const RightTensors& right) {
  return {begin_of<std::int64_t>(right.group), begin_of<T>(right.share)};
}
template <typename T>
PairSums<T> lines_of(const SumTensors& sums) {
  return {begin_of<T>(sums.row_largest), begin_of<T>(sums.row_sum),
          begin_of<T>(sums.column_largest), begin_of<T>(sums.column_sum), begin_of<T>(sums.right)};
}
template <typename T>
PairGradient<T> lines_of(const GradientTensors& gradient) {
  return {begin_of<T>(gradient.of_rows), begin_of<T>(gradient.of_columns),
          begin_of<T>(gradient.weight), begin_of<T>(gradient.by_scale)};
}

/// Calls `loop` on a CPU and `launch(stream)` on a GPU; does nothing on the Meta device.
template <typename Loop, typename Launch>
void where_it_lies(const at::Tensor& products, const Loop& loop,
                   [[maybe_unused]] const Launch& launch) {
  if (products.is_meta()) return;
  if (products.is_cpu()) return loop();
#ifdef RETORT_KERNELS
  const c10::DeviceGuard current(products.device());
  launch(c10::impl::VirtualGuardImpl(products.device().type())
             .getStream(products.device())
             .native_handle());
#else
  throw std::logic_error("contrastive_loss: this program was built without GPU kernels");
#endif
}

/// Selects the elements of a vector that belong to the rows or the columns of a tile.
at::Tensor of_tile_rows(const at::Tensor& x, const TileTensor& tile) {
  return x.narrow(0, tile.row, tile.products.size(0));
}
at::Tensor of_tile_columns(const at::Tensor& x, const TileTensor& tile) {
  return x.narrow(0, tile.column, tile.products.size(1));
}

/// Returns the shares of a tile's texts as matches of its images, of shape (rows, columns).
at::Tensor tile_shares(const TileTensor& tile, const RightTensors& right) {
  const at::Tensor is_right = of_tile_rows(right.group, tile)
                                  .unsqueeze(1)
                                  .eq(of_tile_columns(right.group, tile).unsqueeze(0));
  return is_right * of_tile_rows(right.share, tile).unsqueeze(1);
}

void add_log_sums(at::Tensor sums, const at::Tensor& more) { at::logaddexp_out(sums, sums, more); }

void add_by_operators(const TileTensor& tile, const at::Tensor& factor, const RightTensors& right,
                      const SumTensors& sums) {
  const at::Tensor x = tile.products.mul_(factor);
  add_log_sums(of_tile_rows(sums.row_largest, tile), x.logsumexp(1));
  add_log_sums(of_tile_columns(sums.column_largest, tile), x.logsumexp(0));
  if (right.group.defined())
    of_tile_rows(sums.right, tile).add_((tile_shares(tile, right) * x).sum(1));
  else if (tile.row == tile.column) of_tile_rows(sums.right, tile).add_(x.diagonal());
}

at::Tensor gradient_by_operators(const TileTensor& tile, const at::Tensor& factor,
                                 const RightTensors& right, const GradientTensors& gradient) {
  const at::Tensor x = tile.has_factor ? tile.products : tile.products.mul_(factor);
  at::Tensor by_product = (x - of_tile_rows(gradient.of_rows, tile).unsqueeze(1)).exp_();
  by_product.add_((x - of_tile_columns(gradient.of_columns, tile)).exp_());
  if (right.group.defined()) by_product.sub_(tile_shares(tile, right), 2);
  else if (tile.row == tile.column) by_product.diagonal().sub_(2);
  by_product.mul_(gradient.weight);
  of_tile_rows(gradient.by_scale, tile).add_((x * by_product).sum(1));
  return by_product.mul_(factor);
}

}  // namespace

// With kOperators, only log Σ exp is stored, as the largest value of a running sum that is always
// 1.
SumTensors::SumTensors(PairWork work, std::int64_t count, const at::TensorOptions& options)
    : row_largest(at::full({count}, -std::numeric_limits<double>::infinity(), options)),
      row_sum(at::full({count}, work == PairWork::kOperators ? 1 : 0, options)),
      column_largest(row_largest.clone()),
      column_sum(row_sum.clone()),
      right(at::zeros({count}, options)) {}

at::Tensor SumTensors::of_rows() const { return row_largest + row_sum.log(); }

at::Tensor SumTensors::of_columns() const { return column_largest + column_sum.log(); }

void add_pair_sums(PairWork work, const TileTensor& tile, const at::Tensor& factor,
                   const RightTensors& right, const SumTensors& sums) {
  if (work == PairWork::kOperators) return add_by_operators(tile, factor, right, sums);
  AT_DISPATCH_FLOATING_TYPES(tile.products.scalar_type(), "contrastive_loss", [&] {
    using T = scalar_t;
    where_it_lies(
        tile.products,
        [&] { loop_pair_sums(lines_of<T>(tile, factor), lines_of<T>(right), lines_of<T>(sums)); },
        [&](void* stream) {
          launch_pair_sums(lines_of<T>(tile, factor), lines_of<T>(right), lines_of<T>(sums),
                           stream);
        });
  });
}

at::Tensor pair_gradient(PairWork work, const TileTensor& tile, const at::Tensor& factor,
                         const RightTensors& right, const GradientTensors& gradient) {
  if (work == PairWork::kOperators) return gradient_by_operators(tile, factor, right, gradient);
  AT_DISPATCH_FLOATING_TYPES(tile.products.scalar_type(), "contrastive_loss", [&] {
    using T = scalar_t;
    where_it_lies(
        tile.products,
        [&] {
          loop_pair_gradient(lines_of<T>(tile, factor), lines_of<T>(right), lines_of<T>(gradient));
        },
        [&](void* stream) {
          launch_pair_gradient(lines_of<T>(tile, factor), lines_of<T>(right), lines_of<T>(gradient),
                               stream);
        });
  });
  return tile.products;
}

PairWork pair_work_for(const at::Tensor& x) {
#ifndef RETORT_KERNELS
  if (gpu::is_supported()) return PairWork::kOperators;
#endif
  const bool is_on_gpu =
      x.is_meta() ? traced_backend() && traced_backend()->device == at::kCUDA : x.is_cuda();
  return is_on_gpu ? PairWork::kLines : PairWork::kOperators;
}

}  // namespace stages
