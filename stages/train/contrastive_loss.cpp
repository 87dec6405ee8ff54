#include "stages/train/contrastive_loss.h"

#include <limits>
#include <stdexcept>

#include <torch/torch.h>

#include "stages/numerics/linear_layer.h"
#include "stages/numerics/precision.h"
#include "stages/train/contrastive_in_place.h"
#include "stages/train/tiles.h"

namespace stages {
namespace {

using torch::autograd::AutogradContext, torch::autograd::variable_list;

/// Half the sum of log Σ exp over the rows and the columns of the similarities.
class TiledLogSums : public torch::autograd::Function<TiledLogSums> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& images, const at::Tensor& texts,
                            const at::Tensor& logit_scale, std::int64_t tile) {
    const std::int64_t count = images.size(0);
    const auto nothing = [&] { return at::full({count}, -std::numeric_limits<double>::infinity(), images.options()); };
    const at::Tensor of_rows = nothing(), of_columns = nothing();
    const at::Tensor factor = logit_scale.exp();
    for_each_tile(count, count, tile, [&](auto row, auto rows, auto column, auto columns) {
      const at::Tensor similarities = product(images, texts, factor, row, rows, column, columns);
      add_to(of_rows.narrow(0, row, rows), similarities.logsumexp(1));
      add_to(of_columns.narrow(0, column, columns), similarities.logsumexp(0));
    });
    context->save_for_backward({images, texts, logit_scale, of_rows, of_columns});
    context->saved_data["tile"] = tile;
    return (of_rows.sum() + of_columns.sum()) / 2;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    if (torch::GradMode::is_enabled()) throw std::logic_error("contrastive_loss has no gradient of its gradient");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &images = saved[0], &texts = saved[1], &of_rows = saved[3], &of_columns = saved[4];
    const at::Tensor factor = saved[2].exp(), half = gradients[0] / 2;
    const std::int64_t count = images.size(0), tile = context->saved_data["tile"].toInt();
    const at::Tensor by_images = at::zeros_like(images), by_texts = at::zeros_like(texts),
                     by_scale = at::zeros_like(half);
    for_each_tile(count, count, tile, [&](auto row, auto rows, auto column, auto columns) {
      const at::Tensor similarities = product(images, texts, factor, row, rows, column, columns);
      const at::Tensor shares = (similarities - of_rows.narrow(0, row, rows).unsqueeze(1)).exp_();
      shares.add_((similarities - of_columns.narrow(0, column, columns)).exp_()).mul_(half);
      by_scale.add_(similarities.mul_(shares).sum());
      shares.mul_(factor);
      by_images.narrow(0, row, rows).addmm_(shares, texts.narrow(0, column, columns));
      by_texts.narrow(0, column, columns).addmm_(shares.t(), images.narrow(0, row, rows));
    });
    return {by_images, by_texts, by_scale, {}};
  }

 private:
  static at::Tensor product(const at::Tensor& images, const at::Tensor& texts, const at::Tensor& factor,
                            std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns) {
    return images.narrow(0, row, rows).mm(texts.narrow(0, column, columns).t()).mul_(factor);
  }
  static void add_to(at::Tensor sums, const at::Tensor& more) { at::logaddexp_out(sums, sums, more); }
};

/// Of each pair the mean of its group's rows of `x`.
at::Tensor group_means(const at::Tensor& x, const PairGroups& groups) {
  const at::Tensor sums = torch::zeros({groups.count, x.size(1)}, x.options()).index_add(0, groups.of_pair, x);
  const at::Tensor sizes =
      torch::zeros({groups.count}, x.options()).index_add(0, groups.of_pair, torch::ones({x.size(0)}, x.options()));
  return sums.index_select(0, groups.of_pair) / sizes.index_select(0, groups.of_pair).unsqueeze(1);
}

}  // namespace

at::Tensor contrastive_loss(const at::Tensor& images, const at::Tensor& texts, const at::Tensor& logit_scale,
                            const PairGroups& groups, std::int64_t tile) {
  const ScopedPrecision full(Precision::kFp32, images.device());
  const auto type = at::promote_types(images.scalar_type(), at::kFloat);
  const at::Tensor a = images.to(type), b = texts.to(type), scale = logit_scale.to(type);
  if (takes_contrastive_kernels(a)) return contrastive_loss_in_place(a, b, scale, groups, tile);
  const at::Tensor right = groups.of_pair.defined() ? group_means(b, groups) : b;
  const at::Tensor of_right = (a * right).sum() * scale.exp();
  return (TiledLogSums::apply(a, b, scale, tile) - of_right) / a.size(0);
}

std::int64_t contrastive_tile(const at::Tensor& x) {
  constexpr std::int64_t kOfCpu = 128, kOfGpu = 2048;
  return is_on_cpu(x) ? kOfCpu : kOfGpu;
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
