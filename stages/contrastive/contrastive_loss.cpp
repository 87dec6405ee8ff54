#include "stages/contrastive/contrastive_loss.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <stdexcept>

#include <ATen/Dispatch.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "stages/contrastive/launch_pair_softmax.h"
#include "stages/model/linear_layer.h"
#include "stages/numerics/precision_map.h"
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
  return {begin_of<T>(products), tile.row, products.size(0), tile.column, products.size(1), begin_of<T>(factor)};
}
template <typename T>
RightPairs<T> lines_of(const RightTensors& right) {
  return {begin_of<std::int64_t>(right.group), begin_of<T>(right.share)};
}
template <typename T>
PairSums<T> lines_of(const SumTensors& sums) {
  return {begin_of<T>(sums.row_largest), begin_of<T>(sums.row_sum), begin_of<T>(sums.column_largest),
          begin_of<T>(sums.column_sum), begin_of<T>(sums.right)};
}
template <typename T>
PairGradient<T> lines_of(const GradientTensors& gradient) {
  return {begin_of<T>(gradient.of_rows), begin_of<T>(gradient.of_columns), begin_of<T>(gradient.weight),
          begin_of<T>(gradient.by_scale)};
}

/// Calls `loop` on a CPU, and `launch(stream)` on a GPU.
template <typename Loop, typename Launch>
void where_it_lies(const at::Tensor& products, const Loop& loop, [[maybe_unused]] const Launch& launch) {
  if (products.is_meta()) return;
  if (products.is_cpu()) return loop();
#ifdef RETORT_KERNELS
  const c10::DeviceGuard current(products.device());
  launch(c10::impl::VirtualGuardImpl(products.device().type()).getStream(products.device()).native_handle());
#else
  throw std::logic_error("contrastive_loss: this program has no kernels");
#endif
}

/// What of a vector belongs to the rows or the columns of a tile.
at::Tensor of_tile_rows(const at::Tensor& x, const TileTensor& tile) {
  return x.narrow(0, tile.row, tile.products.size(0));
}
at::Tensor of_tile_columns(const at::Tensor& x, const TileTensor& tile) {
  return x.narrow(0, tile.column, tile.products.size(1));
}

/// The shares of a tile's texts in what is right for its images.
at::Tensor tile_shares(const TileTensor& tile, const RightTensors& right) {
  const at::Tensor is_right =
      of_tile_rows(right.group, tile).unsqueeze(1).eq(of_tile_columns(right.group, tile).unsqueeze(0));
  return is_right * of_tile_rows(right.share, tile).unsqueeze(1);
}

void add_log_sums(at::Tensor sums, const at::Tensor& more) { at::logaddexp_out(sums, sums, more); }

void add_by_operators(const TileTensor& tile, const at::Tensor& factor, const RightTensors& right,
                      const SumTensors& sums) {
  const at::Tensor x = tile.products.mul_(factor);
  add_log_sums(of_tile_rows(sums.row_largest, tile), x.logsumexp(1));
  add_log_sums(of_tile_columns(sums.column_largest, tile), x.logsumexp(0));
  if (right.group.defined()) of_tile_rows(sums.right, tile).add_((tile_shares(tile, right) * x).sum(1));
  else if (tile.row == tile.column) of_tile_rows(sums.right, tile).add_(x.diagonal());
}

at::Tensor gradient_by_operators(const TileTensor& tile, const at::Tensor& factor, const RightTensors& right,
                                 const GradientTensors& gradient) {
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

// Operators keep the logarithm alone: as that of the largest of numbers whose sum is 1.
SumTensors::SumTensors(PairWork work, std::int64_t count, const at::TensorOptions& options)
    : row_largest(at::full({count}, -std::numeric_limits<double>::infinity(), options)),
      row_sum(at::full({count}, work == PairWork::kOperators ? 1 : 0, options)),
      column_largest(row_largest.clone()),
      column_sum(row_sum.clone()),
      right(at::zeros({count}, options)) {}

at::Tensor SumTensors::of_rows() const { return row_largest + row_sum.log(); }

at::Tensor SumTensors::of_columns() const { return column_largest + column_sum.log(); }

void add_pair_sums(PairWork work, const TileTensor& tile, const at::Tensor& factor, const RightTensors& right,
                   const SumTensors& sums) {
  if (work == PairWork::kOperators) return add_by_operators(tile, factor, right, sums);
  AT_DISPATCH_FLOATING_TYPES(tile.products.scalar_type(), "contrastive_loss", [&] {
    using T = scalar_t;
    where_it_lies(
        tile.products, [&] { loop_pair_sums(lines_of<T>(tile, factor), lines_of<T>(right), lines_of<T>(sums)); },
        [&](void* stream) {
          launch_pair_sums(lines_of<T>(tile, factor), lines_of<T>(right), lines_of<T>(sums), stream);
        });
  });
}

at::Tensor pair_gradient(PairWork work, const TileTensor& tile, const at::Tensor& factor, const RightTensors& right,
                         const GradientTensors& gradient) {
  if (work == PairWork::kOperators) return gradient_by_operators(tile, factor, right, gradient);
  AT_DISPATCH_FLOATING_TYPES(tile.products.scalar_type(), "contrastive_loss", [&] {
    using T = scalar_t;
    where_it_lies(
        tile.products,
        [&] { loop_pair_gradient(lines_of<T>(tile, factor), lines_of<T>(right), lines_of<T>(gradient)); },
        [&](void* stream) {
          launch_pair_gradient(lines_of<T>(tile, factor), lines_of<T>(right), lines_of<T>(gradient), stream);
        });
  });
  return tile.products;
}

PairWork pair_work_for(const at::Tensor& x) {
#if defined(RETORT_LIBTORCH_CUDA) && !defined(RETORT_KERNELS)
  return PairWork::kOperators;
#else
  const bool is_on_gpu = x.is_meta() ? traced_backend() && traced_backend()->device == at::kCUDA : x.is_cuda();
  return is_on_gpu ? PairWork::kLines : PairWork::kOperators;
#endif
}

namespace {

constexpr std::int64_t kTilesAtOnce = 3;  // the similarities of a tile and what operators make of them
constexpr std::int64_t kEmbeddings = 4;   // images and texts, and their gradients

using torch::autograd::AutogradContext, torch::autograd::variable_list;

using MaybeTensor = std::optional<at::Tensor>;

/// The products of one tile at a time, where those of the tile before lay.
class TileProducts {
 public:
  TileProducts(const at::Tensor& images, const at::Tensor& texts, std::int64_t tile)
      : images_(images), texts_(texts), side_(std::min(tile, images.size(0))) {}

  TileTensor at(std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns) {
    if (!buffer_.defined()) buffer_ = at::empty({side_ * side_}, images_.options());
    at::Tensor products = buffer_.narrow(0, 0, rows * columns).view({rows, columns});
    // Autocast leaves alone what writes to a given tensor.
    at::mm_out(products, images_.narrow(0, row, rows), texts_.narrow(0, column, columns).t());
    return {products, row, column};
  }

 private:
  const at::Tensor &images_, &texts_;
  const std::int64_t side_;
  at::Tensor buffer_;
};

/// Has one tile of what grows with the square of the pairs. Where that is all, operators keep its similarities for the
/// gradient.
class TiledLoss : public torch::autograd::Function<TiledLoss> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& images, const at::Tensor& texts,
                            const at::Tensor& logit_scale, const MaybeTensor& group, const MaybeTensor& share,
                            std::int64_t tile, PairWork work) {
    const std::int64_t count = images.size(0);
    const RightTensors right{group.value_or(at::Tensor()), share.value_or(at::Tensor())};
    const SumTensors sums(work, count, images.options());
    const at::Tensor factor = logit_scale.exp();
    TileProducts products(images, texts, tile);
    at::Tensor similarities;
    for_each_tile(count, count, tile, [&](auto row, auto rows, auto column, auto columns) {
      const TileTensor here = products.at(row, rows, column, columns);
      add_pair_sums(work, here, factor, right, sums);
      if (work == PairWork::kOperators && count <= tile) similarities = here.products;
    });
    const at::Tensor of_rows = sums.of_rows(), of_columns = sums.of_columns();
    context->save_for_backward({images, texts, factor, of_rows, of_columns, right.group, right.share, similarities});
    context->saved_data["tile"] = tile;
    context->saved_data["has_lines"] = work == PairWork::kLines;
    return ((of_rows + of_columns) / 2 - sums.right).mean();
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    if (torch::GradMode::is_enabled()) throw std::logic_error("contrastive_loss has no gradient of its gradient");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &images = saved[0], &texts = saved[1], &factor = saved[2];
    const RightTensors right{saved[5], saved[6]};
    const std::int64_t count = images.size(0), tile = context->saved_data["tile"].toInt();
    const PairWork work = context->saved_data["has_lines"].toBool() ? PairWork::kLines : PairWork::kOperators;
    const GradientTensors gradient{saved[3], saved[4], gradients[0] / static_cast<double>(2 * count),
                                   at::zeros({count}, images.options())};
    const at::Tensor by_images = at::zeros_like(images), by_texts = at::zeros_like(texts);
    TileProducts products(images, texts, tile);
    for_each_tile(count, count, tile, [&](auto row, auto rows, auto column, auto columns) {
      const TileTensor here = saved[7].defined() ? TileTensor{saved[7], row, column, /*has_factor=*/true}
                                                 : products.at(row, rows, column, columns);
      const at::Tensor by_products = pair_gradient(work, here, factor, right, gradient);
      by_images.narrow(0, row, rows).addmm_(by_products, texts.narrow(0, column, columns));
      by_texts.narrow(0, column, columns).addmm_(by_products.t(), images.narrow(0, row, rows));
    });
    return {by_images, by_texts, gradient.by_scale.sum(), {}, {}, {}, {}};
  }
};

}  // namespace

at::Tensor contrastive_loss(const at::Tensor& images, const at::Tensor& texts, const at::Tensor& logit_scale,
                            const PairGroups& groups, std::int64_t tile) {
  return contrastive_loss(images, texts, logit_scale, groups, tile, pair_work_for(images));
}

at::Tensor contrastive_loss(const at::Tensor& images, const at::Tensor& texts, const at::Tensor& logit_scale,
                            const PairGroups& groups, std::int64_t tile, PairWork work) {
  const auto type = at::promote_types(images.scalar_type(), at::kFloat);
  MaybeTensor group, share;
  if (groups.of_pair.defined()) {
    group = groups.of_pair.contiguous();
    const at::Tensor one_each = torch::ones({images.size(0)}, images.options().dtype(type));
    const at::Tensor sizes = torch::zeros({groups.count}, one_each.options()).index_add(0, *group, one_each);
    share = sizes.reciprocal().index_select(0, *group);
  }
  return TiledLoss::apply(images.to(type), texts.to(type), logit_scale.to(type), group, share, tile, work);
}

std::int64_t contrastive_tile(const at::Tensor& x) {
  constexpr std::int64_t kSmallest = 128, kLargest = 512, kOfGpu = 2048;
  if (!is_on_cpu(x)) return kOfGpu;
  std::int64_t tile = kSmallest;
  while (tile < kLargest && kTilesAtOnce * 4 * tile * tile <= kEmbeddings * x.numel()) tile *= 2;
  return tile;
}

at::Tensor nearest(const at::Tensor& queries, const at::Tensor& candidates, std::int64_t tile) {
  const torch::NoGradGuard no_graph;
  const ScopedPrecision full(Precision::kFp32, queries.device());
  const auto type = at::promote_types(queries.scalar_type(), at::kFloat);
  const at::Tensor best =
      torch::full({queries.size(0)}, -std::numeric_limits<double>::infinity(), queries.options().dtype(type));
  const at::Tensor places = torch::zeros({queries.size(0)}, queries.options().dtype(at::kLong));
  for_each_tile(queries.size(0), candidates.size(0), tile, [&](auto row, auto rows, auto column, auto columns) {
    const at::Tensor products =
        queries.narrow(0, row, rows).to(type).mm(candidates.narrow(0, column, columns).to(type).t());
    const auto [values, at] = products.max(1);
    at::Tensor best_here = best.narrow(0, row, rows), places_here = places.narrow(0, row, rows);
    const at::Tensor is_better = values.gt(best_here);
    places_here.copy_(torch::where(is_better, at + column, places_here));
    best_here.copy_(torch::where(is_better, values, best_here));
  });
  return places;
}

}  // namespace stages
