#include "stages/model/gated_residual.h"

#include <algorithm>
#include <stdexcept>

#include <torch/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "stages/model/linear_layer.h"
#include "stages/tensor/parallel.h"

namespace stages {
namespace {

using torch::autograd::AutogradContext, torch::autograd::variable_list;

constexpr at::MemoryFormat kByPixel = at::MemoryFormat::ChannelsLast;
/// Of which the gradient of a gate is added up in one go; that of an image is the sum of its parts. So it does not
/// depend on the threads, and small numbers do not vanish in a large sum.
constexpr std::int64_t kPixelsOfPart = 32;

/// Maps (images, channels, h, w) that lie pixel by pixel, cut into parts of some pixels of one image.
class Parts {
 public:
  struct Part {
    std::int64_t image = 0, number = 0;           ///< its place among all images, and among all parts
    std::int64_t first_pixel = 0, end_pixel = 0;  ///< among those of all images
  };

  explicit Parts(const at::Tensor& maps) : images_(maps.size(0)), pixels_(maps.size(2) * maps.size(3)) {}

  std::int64_t of_image() const { return (pixels_ + kPixelsOfPart - 1) / kPixelsOfPart; }

  template <typename Work>
  void each(const Work& work) const {
    parallel_for(images_ * of_image(), /*grain=*/1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t part = begin; part < end; ++part) {
        const std::int64_t image = part / of_image(), first = part % of_image() * kPixelsOfPart;
        const std::int64_t until = std::min(first + kPixelsOfPart, pixels_);
        work(Part{image, part, image * pixels_ + first, image * pixels_ + until});
      }
    });
  }

 private:
  const std::int64_t images_, pixels_;
};

/// relu(x · open + added) of one pixel. Nothing here overlaps, so that several channels are computed at a time.
void add_gated(const float* __restrict x, const float* __restrict open, const float* __restrict added,
               float* __restrict y, std::int64_t channels) {
  for (std::int64_t c = 0; c < channels; ++c) {
    const float product = x[c] * open[c], sum = product + added[c];
    y[c] = sum < 0 ? 0 : sum;  // NaN stays
  }
}

/// Of one pixel the gradients of x and of what was added, and its share of the gate's.
void add_gated_backward(const float* __restrict dy, const float* __restrict y, const float* __restrict x,
                        const float* __restrict open, float* __restrict dx, float* __restrict d_added,
                        float* __restrict d_open, std::int64_t channels) {
  for (std::int64_t c = 0; c < channels; ++c) {
    const float slope = dy[c], d = y[c] <= 0 ? 0 : slope;  // read in any case: no branch
    d_added[c] = d;
    dx[c] = d * open[c];
    d_open[c] += d * x[c];
  }
}

class GatedResidual : public torch::autograd::Function<GatedResidual> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& maps, const at::Tensor& gate,
                            const at::Tensor& added) {
    const at::Tensor y = at::empty_like(maps);
    context->save_for_backward({maps, gate, y});
    if (y.is_meta()) return y;
    const std::int64_t channels = maps.size(1);
    const auto *const x = maps.const_data_ptr<float>(), *const other = added.const_data_ptr<float>();
    const auto* const open = gate.const_data_ptr<float>();
    auto* const to = y.mutable_data_ptr<float>();
    Parts(maps).each([=](const Parts::Part& part) {
      for (std::int64_t pixel = part.first_pixel; pixel < part.end_pixel; ++pixel) {
        const std::int64_t at = pixel * channels;
        add_gated(x + at, open + part.image * channels, other + at, to + at, channels);
      }
    });
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    if (torch::GradMode::is_enabled()) throw std::logic_error("a gated residual has no gradient of its gradient");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &maps = saved[0], &gate = saved[1], &y = saved[2];
    const at::Tensor dy = gradients[0].contiguous(kByPixel);
    const at::Tensor d_maps = at::empty_like(maps), d_added = at::empty_like(maps);
    const Parts parts(maps);
    const std::int64_t channels = maps.size(1);
    const at::Tensor d_gates = at::zeros({maps.size(0), parts.of_image(), channels}, gate.options());
    if (!maps.is_meta()) {
      const auto *const x = maps.const_data_ptr<float>(), *const result = y.const_data_ptr<float>();
      const auto *const slope = dy.const_data_ptr<float>(), *const open = gate.const_data_ptr<float>();
      auto *const dx = d_maps.mutable_data_ptr<float>(), *const d_other = d_added.mutable_data_ptr<float>();
      auto* const d_open = d_gates.mutable_data_ptr<float>();
      parts.each([=](const Parts::Part& part) {
        for (std::int64_t pixel = part.first_pixel; pixel < part.end_pixel; ++pixel) {
          const std::int64_t at = pixel * channels;
          add_gated_backward(slope + at, result + at, x + at, open + part.image * channels, dx + at, d_other + at,
                             d_open + part.number * channels, channels);
        }
      });
    }
    return {d_maps, d_gates.sum(1).view(gate.sizes()), d_added};
  }
};

bool is_ours(const at::Tensor& maps, const at::Tensor& gate, const at::Tensor& added) {
  const auto is_plain = [](const at::Tensor& x) { return x.scalar_type() == at::kFloat && x.is_contiguous(kByPixel); };
  return is_on_cpu(maps) && is_plain(maps) && is_plain(gate) && is_plain(added) && added.sizes() == maps.sizes();
}

}  // namespace

at::Tensor gated_residual(const at::Tensor& maps, const at::Tensor& gate, const at::Tensor& added) {
  if (is_ours(maps, gate, added)) return GatedResidual::apply(maps, gate, added);
  const at::Tensor y = maps * gate;
  return (y.scalar_type() == added.scalar_type() ? y.add_(added) : y + added).relu_();
}

}  // namespace stages
