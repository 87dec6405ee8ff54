#include "stages/contrastive/contrastive_loss.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <stdexcept>

#include <torch/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "stages/contrastive/tile_products.h"
#include "stages/contrastive/tiles.h"
#include "stages/model/linear_layer.h"
#include "stages/numerics/precision_map.h"

namespace stages {
namespace {

constexpr std::int64_t kTilesAtOnce =
    3;  // the similarities of a tile and the operators' intermediate results
constexpr std::int64_t kEmbeddings = 4;  // images, texts, and their gradients

using torch::autograd::AutogradContext, torch::autograd::variable_list;

using MaybeTensor = std::optional<at::Tensor>;

/// Keeps only one tile of each (images, texts) matrix in memory.
/// With a single tile, PairWork::kOperators saves its similarities for the gradient.
class TiledLoss : public torch::autograd::Function<TiledLoss> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& images,
                            const at::Tensor& texts, const at::Tensor& logit_scale,
                            const MaybeTensor& group, const MaybeTensor& share, std::int64_t tile,
                            PairWork work) {
    const std::int64_t count = images.size(0);
    const RightTensors right{group.value_or(at::Tensor()), share.value_or(at::Tensor())};
    const SumTensors sums(work, count, images.options());
    const at::Tensor factor = logit_scale.exp();
    TileProducts products(images, texts, tile);
    at::Tensor similarities;
    for_each_tile(count, count, tile, [&](auto row, auto rows, auto column, auto columns) {
      const TileTensor here{products.at(row, rows, column, columns), row, column};
      add_pair_sums(work, here, factor, right, sums);
      if (work == PairWork::kOperators && count <= tile) similarities = here.products;
    });
    const at::Tensor of_rows = sums.of_rows(), of_columns = sums.of_columns();
    context->save_for_backward(
        {images, texts, factor, of_rows, of_columns, right.group, right.share, similarities});
    context->saved_data["tile"] = tile;
    context->saved_data["has_lines"] = work == PairWork::kLines;
    return ((of_rows + of_columns) / 2 - sums.right).mean();
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    if (torch::GradMode::is_enabled())
      throw std::logic_error("contrastive_loss does not support double backward");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &images = saved[0], &texts = saved[1], &factor = saved[2];
    const RightTensors right{saved[5], saved[6]};
    const std::int64_t count = images.size(0), tile = context->saved_data["tile"].toInt();
    const PairWork work =
        context->saved_data["has_lines"].toBool() ? PairWork::kLines : PairWork::kOperators;
    const GradientTensors gradient{saved[3], saved[4],
                                   gradients[0] / static_cast<double>(2 * count),
                                   at::zeros({count}, images.options())};
    const at::Tensor by_images = at::zeros_like(images), by_texts = at::zeros_like(texts);
    TileProducts products(images, texts, tile);
    for_each_tile(count, count, tile, [&](auto row, auto rows, auto column, auto columns) {
      const TileTensor here =
          saved[7].defined() ? TileTensor{saved[7], row, column, /*has_factor=*/true}
                             : TileTensor{products.at(row, rows, column, columns), row, column};
      const at::Tensor by_products = pair_gradient(work, here, factor, right, gradient);
      by_images.narrow(0, row, rows).addmm_(by_products, texts.narrow(0, column, columns));
      by_texts.narrow(0, column, columns).addmm_(by_products.t(), images.narrow(0, row, rows));
    });
    return {by_images, by_texts, gradient.by_scale.sum(), {}, {}, {}, {}};
  }
};

}  // namespace

at::Tensor contrastive_loss(const at::Tensor& images, const at::Tensor& texts,
                            const at::Tensor& logit_scale, const PairGroups& groups,
                            std::int64_t tile) {
  return contrastive_loss(images, texts, logit_scale, groups, tile, pair_work_for(images));
}

at::Tensor contrastive_loss(const at::Tensor& images, const at::Tensor& texts,
                            const at::Tensor& logit_scale, const PairGroups& groups,
                            std::int64_t tile, PairWork work) {
  const auto type = at::promote_types(images.scalar_type(), at::kFloat);
  MaybeTensor group, share;
  if (groups.of_pair.defined()) {
    group = groups.of_pair.contiguous();
    const at::Tensor one_each = torch::ones({images.size(0)}, images.options().dtype(type));
    const at::Tensor sizes =
        torch::zeros({groups.count}, one_each.options()).index_add(0, *group, one_each);
    share = sizes.reciprocal().index_select(0, *group);
  }
  return TiledLoss::apply(images.to(type), texts.to(type), logit_scale.to(type), group, share, tile,
                          work);
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
  const at::Tensor best = torch::full({queries.size(0)}, -std::numeric_limits<double>::infinity(),
                                      queries.options().dtype(type));
  const at::Tensor places = torch::zeros({queries.size(0)}, queries.options().dtype(at::kLong));
  for_each_tile(
      queries.size(0), candidates.size(0), tile,
      [&](auto row, auto rows, auto column, auto columns) {
        const at::Tensor products = queries.narrow(0, row, rows)
                                        .to(type)
                                        .mm(candidates.narrow(0, column, columns).to(type).t());
        const auto [values, at] = products.max(1);
        at::Tensor best_here = best.narrow(0, row, rows), places_here = places.narrow(0, row, rows);
        const at::Tensor is_better = values.gt(best_here);
        places_here.copy_(torch::where(is_better, at + column, places_here));
        best_here.copy_(torch::where(is_better, values, best_here));
      });
  return places;
}

}  // namespace stages
