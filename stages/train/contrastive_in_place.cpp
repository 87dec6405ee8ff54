#include "stages/train/contrastive_in_place.h"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include <ATen/Dispatch.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/torch.h>

#include "stages/trace/memory_trace.h"
#include "stages/train/launch_pair_softmax.h"
#include "stages/train/loop_pair_softmax.h"
#include "stages/train/tiles.h"

namespace stages {
namespace {

using torch::autograd::AutogradContext, torch::autograd::variable_list;

/// The products of one tile at a time, where those of the tile before lay.
class TileProducts {
 public:
  TileProducts(const at::Tensor& images, const at::Tensor& texts, std::int64_t tile)
      : images_(images),
        texts_(texts),
        buffer_(at::empty({square(std::min(tile, images.size(0)))}, images.options())) {}

  at::Tensor at(std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns) const {
    at::Tensor products = buffer_.narrow(0, 0, rows * columns).view({rows, columns});
    at::mm_out(products, images_.narrow(0, row, rows), texts_.narrow(0, column, columns).t());
    return products;
  }

 private:
  static std::int64_t square(std::int64_t x) { return x * x; }

  const at::Tensor &images_, &texts_;
  const at::Tensor buffer_;
};

/// pair_softmax.h's structs, as tensors.
struct RightTensors {
  at::Tensor group, share;
};
struct SumTensors {
  at::Tensor row_largest, row_sum, column_largest, column_sum, right;
};
struct GradientTensors {
  at::Tensor of_rows, of_columns, weight, by_scale;
};

template <typename T>
T* begin_of(const at::Tensor& x) {
  return x.defined() ? x.mutable_data_ptr<T>() : nullptr;
}
template <typename T>
PairTile<T> as_tile(const at::Tensor& products, std::int64_t row, std::int64_t column, const at::Tensor& factor) {
  return {begin_of<T>(products), row, products.size(0), column, products.size(1), begin_of<T>(factor)};
}
template <typename T>
RightPairs<T> as_right(const RightTensors& right) {
  return {begin_of<std::int64_t>(right.group), begin_of<T>(right.share)};
}
template <typename T>
PairSums<T> as_sums(const SumTensors& sums) {
  return {begin_of<T>(sums.row_largest), begin_of<T>(sums.row_sum), begin_of<T>(sums.column_largest),
          begin_of<T>(sums.column_sum), begin_of<T>(sums.right)};
}
template <typename T>
PairGradient<T> as_gradient(const GradientTensors& gradient) {
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
  throw std::logic_error("contrastive_loss_in_place: this program has no kernels");
#endif
}

void add_to_sums(const at::Tensor& products, std::int64_t row, std::int64_t column, const at::Tensor& factor,
                 const RightTensors& right, const SumTensors& sums) {
  AT_DISPATCH_FLOATING_TYPES(products.scalar_type(), "contrastive_loss", [&] {
    const auto tile = [&] { return as_tile<scalar_t>(products, row, column, factor); };
    where_it_lies(
        products, [&] { loop_pair_sums(tile(), as_right<scalar_t>(right), as_sums<scalar_t>(sums)); },
        [&](void* stream) { launch_pair_sums(tile(), as_right<scalar_t>(right), as_sums<scalar_t>(sums), stream); });
  });
}

void take_gradient(const at::Tensor& products, std::int64_t row, std::int64_t column, const at::Tensor& factor,
                   const RightTensors& right, const GradientTensors& gradient) {
  AT_DISPATCH_FLOATING_TYPES(products.scalar_type(), "contrastive_loss", [&] {
    const auto tile = [&] { return as_tile<scalar_t>(products, row, column, factor); };
    where_it_lies(
        products, [&] { loop_pair_gradient(tile(), as_right<scalar_t>(right), as_gradient<scalar_t>(gradient)); },
        [&](void* stream) {
          launch_pair_gradient(tile(), as_right<scalar_t>(right), as_gradient<scalar_t>(gradient), stream);
        });
  });
}

using MaybeTensor = std::optional<at::Tensor>;

class InPlaceLoss : public torch::autograd::Function<InPlaceLoss> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& images, const at::Tensor& texts,
                            const at::Tensor& logit_scale, const MaybeTensor& group, const MaybeTensor& share,
                            std::int64_t tile) {
    const std::int64_t count = images.size(0);
    const RightTensors right{group.value_or(at::Tensor()), share.value_or(at::Tensor())};
    const auto nothing = [&] { return at::full({count}, -std::numeric_limits<double>::infinity(), images.options()); };
    const auto zeros = [&] { return at::zeros({count}, images.options()); };
    const SumTensors sums{nothing(), zeros(), nothing(), zeros(), zeros()};
    const at::Tensor factor = logit_scale.exp();
    const TileProducts products(images, texts, tile);
    for_each_tile(count, count, tile, [&](auto row, auto rows, auto column, auto columns) {
      add_to_sums(products.at(row, rows, column, columns), row, column, factor, right, sums);
    });
    const at::Tensor of_rows = sums.row_largest + sums.row_sum.log();
    const at::Tensor of_columns = sums.column_largest + sums.column_sum.log();
    context->save_for_backward({images, texts, factor, of_rows, of_columns, right.group, right.share});
    context->saved_data["tile"] = tile;
    return ((of_rows + of_columns) / 2 - sums.right).mean();
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    if (torch::GradMode::is_enabled()) throw std::logic_error("contrastive_loss has no gradient of its gradient");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &images = saved[0], &texts = saved[1], &factor = saved[2];
    const RightTensors right{saved[5], saved[6]};
    const std::int64_t count = images.size(0), tile = context->saved_data["tile"].toInt();
    const GradientTensors gradient{saved[3], saved[4], gradients[0] / static_cast<double>(2 * count),
                                   at::zeros({count}, images.options())};
    const at::Tensor by_images = at::zeros_like(images), by_texts = at::zeros_like(texts);
    const TileProducts products(images, texts, tile);
    for_each_tile(count, count, tile, [&](auto row, auto rows, auto column, auto columns) {
      const at::Tensor shares = products.at(row, rows, column, columns);
      take_gradient(shares, row, column, factor, right, gradient);
      by_images.narrow(0, row, rows).addmm_(shares, texts.narrow(0, column, columns));
      by_texts.narrow(0, column, columns).addmm_(shares.t(), images.narrow(0, row, rows));
    });
    return {by_images, by_texts, gradient.by_scale.sum(), {}, {}, {}};
  }
};

}  // namespace

at::Tensor contrastive_loss_in_place(const at::Tensor& images, const at::Tensor& texts, const at::Tensor& logit_scale,
                                     const PairGroups& groups, std::int64_t tile) {
  MaybeTensor group, share;
  if (groups.of_pair.defined()) {
    group = groups.of_pair.contiguous();
    const at::Tensor sizes =
        at::zeros({groups.count}, images.options()).index_add(0, *group, at::ones({images.size(0)}, images.options()));
    share = sizes.reciprocal().index_select(0, *group);
  }
  return InPlaceLoss::apply(images, texts, logit_scale, group, share, tile);
}

bool takes_contrastive_kernels(const at::Tensor& x) {
#if defined(RETORT_LIBTORCH_CUDA) && !defined(RETORT_KERNELS)
  return false;
#else
  return x.is_meta() ? traced_backend() && traced_backend()->device == at::kCUDA : x.is_cuda();
#endif
}

}  // namespace stages
