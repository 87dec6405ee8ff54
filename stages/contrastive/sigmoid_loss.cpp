#include "stages/contrastive/sigmoid_loss.h"

#include <optional>
#include <stdexcept>

#include <torch/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "stages/contrastive/tile_products.h"
#include "stages/contrastive/tiles.h"

namespace stages {
namespace {

using torch::autograd::AutogradContext, torch::autograd::variable_list;

/// A tile's first row and column in the matrix of all logits.
struct TilePlace {
  std::int64_t row, column;
};

/// Negates the values of a tile for images and texts that do not match. If `group` is undefined,
/// only the diagonal of the matrix matches.
void negate_others(at::Tensor x, const TilePlace& place, const at::Tensor& group) {
  if (group.defined()) {
    const at::Tensor rows = group.narrow(0, place.row, x.size(0)).unsqueeze(1);
    const at::Tensor columns = group.narrow(0, place.column, x.size(1)).unsqueeze(0);
    x.mul_(rows.eq(columns).to(x.scalar_type()).mul_(2).sub_(1));
    return;
  }
  x.neg_();
  if (place.row == place.column) x.diagonal().neg_();
}

/// Keeps only one tile of each (images, texts) matrix in memory.
class TiledSigmoidLoss : public torch::autograd::Function<TiledSigmoidLoss> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& images,
                            const at::Tensor& texts, const at::Tensor& logit_scale,
                            const at::Tensor& logit_bias, const std::optional<at::Tensor>& group,
                            std::int64_t tile) {
    const std::int64_t count = images.size(0);
    const at::Tensor factor = logit_scale.exp();
    const at::Tensor sum = at::zeros({}, images.options());
    TileProducts products(images, texts, tile);
    for_each_tile(count, count, tile, [&](auto row, auto rows, auto column, auto columns) {
      at::Tensor x = products.at(row, rows, column, columns).mul_(factor).add_(logit_bias);
      negate_others(x, {row, column}, group.value_or(at::Tensor()));
      sum.sub_(at::log_sigmoid(x).sum());
    });
    context->save_for_backward({images, texts, factor, logit_bias, group.value_or(at::Tensor())});
    context->saved_data["tile"] = tile;
    return sum / count;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    if (torch::GradMode::is_enabled())
      throw std::logic_error("sigmoid_loss does not support double backward");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &images = saved[0], &texts = saved[1], &factor = saved[2], &bias = saved[3],
                     &group = saved[4];
    const std::int64_t count = images.size(0), tile = context->saved_data["tile"].toInt();
    const at::Tensor weight = -gradients[0] / count;
    const at::Tensor by_images = at::zeros_like(images), by_texts = at::zeros_like(texts);
    const at::Tensor by_bias = at::zeros({}, images.options());
    TileProducts products(images, texts, tile);
    for_each_tile(count, count, tile, [&](auto row, auto rows, auto column, auto columns) {
      at::Tensor x = products.at(row, rows, column, columns).mul_(factor).add_(bias);
      negate_others(x, {row, column}, group);
      x.neg_().sigmoid_().mul_(weight);  // the derivative of -log σ(x), times its weight
      negate_others(x, {row, column}, group);
      by_bias.add_(x.sum());
      x.mul_(factor);
      by_images.narrow(0, row, rows).addmm_(x, texts.narrow(0, column, columns));
      by_texts.narrow(0, column, columns).addmm_(x.t(), images.narrow(0, row, rows));
    });
    // The products are proportional to the factor as well as to the images.
    return {by_images, by_texts, (images * by_images).sum(), by_bias, {}, {}};
  }
};

}  // namespace

at::Tensor sigmoid_loss(const at::Tensor& images, const at::Tensor& texts,
                        const at::Tensor& logit_scale, const at::Tensor& logit_bias,
                        const PairGroups& groups, std::int64_t tile) {
  const auto type = at::promote_types(images.scalar_type(), at::kFloat);
  std::optional<at::Tensor> group;
  if (groups.of_pair.defined()) group = groups.of_pair;
  return TiledSigmoidLoss::apply(images.to(type), texts.to(type), logit_scale.to(type),
                                 logit_bias.to(type), group, tile);
}

}  // namespace stages
