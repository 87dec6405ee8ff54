#include "stages/train/mixing.h"

#include <algorithm>
#include <cmath>

#include <torch/types.h>
#include <torch/utils.h>

#include "runner/shared/error/stage_error.h"
#include "runner/shared/stage/config_reader.h"
#include "stages/artifact/targets.h"
#include "stages/random/distributions.h"
#include "stages/random/philox.h"
#include "stages/tensor/batch.h"

namespace stages {
namespace {

/// The random numbers of one sample in one step. They use a counter that no layer's dropout uses.
class SampleNumbers {
 public:
  SampleNumbers(const StepKey& key, std::uint32_t name) : key_(key), name_(name) {}

  /// Returns a number in (0, 1).
  double uniform() {
    constexpr std::uint32_t kMixing = 0xFFFFFFFF;
    if (next_ == 4) {
      words_ = philox({{block_++, name_, kMixing, static_cast<std::uint32_t>(key_.step)}},
                      static_cast<std::uint32_t>(key_.seed),
                      static_cast<std::uint32_t>(key_.seed >> 32));
      next_ = 0;
    }
    return (words_.word[next_++] + 0.5) * 0x1.0p-32;
  }
  double beta(double alpha) {
    const auto draw = [this] { return uniform(); };
    const double x = draw_gamma(draw, alpha), y = draw_gamma(draw, alpha);
    return x + y > 0 ? x / (x + y) : 0.5;  // both underflow to 0 if alpha is tiny
  }

 private:
  const StepKey key_;
  const std::uint32_t name_;
  std::uint32_t block_ = 0;
  PhiloxWords words_{};
  int next_ = 4;
};

/// Returns a box around a random center with about 1 - `share` of the pixels, or fewer if the box
/// extends past the edge.
MixedBox draw_box(SampleNumbers& numbers, double share, std::int64_t height, std::int64_t width) {
  const double side = std::sqrt(1 - share);
  const auto cut = [&](std::int64_t length, std::int64_t& begin, std::int64_t& size) {
    const auto half = static_cast<std::int64_t>(static_cast<double>(length) * side) / 2;
    const auto center = static_cast<std::int64_t>(numbers.uniform() * static_cast<double>(length));
    begin = std::clamp<std::int64_t>(center - half, 0, length);
    size = std::clamp<std::int64_t>(center + half, 0, length) - begin;
  };
  MixedBox box;
  cut(height, box.top, box.height);
  cut(width, box.left, box.width);
  return box;
}

/// Returns the samples shifted cyclically by one position, in the same memory layout.
at::Tensor shifted(const at::Tensor& samples) {
  const std::int64_t last = samples.size(0) - 1;
  at::Tensor result = torch::empty_like(samples);
  result.slice(0, 0, 1).copy_(samples.slice(0, last));
  result.slice(0, 1).copy_(samples.slice(0, 0, last));
  return result;
}

}  // namespace

MixingOptions read_mixing(runner::ConfigReader& reader) {
  MixingOptions options;
  reader.read("mixup", options.mixup_alpha);
  reader.read("cutmix", options.cutmix_alpha);
  return options;
}

void check_mixing(const MixingOptions& options, const Dataset& train) {
  if (options.cutmix_alpha == 0) return;
  const std::vector<TensorSpec> tensors = train.describe().tensors;
  const auto image = std::ranges::find(tensors, "image", &TensorSpec::name);
  if (image != tensors.end() && image->shape.size() == 3) return;
  throw runner::StageError(runner::ErrorCode::kOptionConflict,
                           "cutmix cuts pixels out of images, but the training data has none")
      .at("/cutmix")
      .with_help("use mixup, which mixes any kind of sample");
}

Mixture draw_mixture(const MixingOptions& options, const StepKey& key, std::uint32_t name,
                     std::int64_t height, std::int64_t width) {
  SampleNumbers numbers(key, name);
  const bool has_both = options.mixup_alpha > 0 && options.cutmix_alpha > 0;
  const bool cuts = has_both ? numbers.uniform() < 0.5 : options.cutmix_alpha > 0;
  Mixture mixture;
  mixture.share = numbers.beta(cuts ? options.cutmix_alpha : options.mixup_alpha);
  if (!cuts) return mixture;
  mixture.box = draw_box(numbers, mixture.share, height, width);
  mixture.share = 1 - static_cast<double>(mixture.box.height * mixture.box.width) /
                          static_cast<double>(height * width);
  return mixture;
}

Batch mix_samples(const Batch& batch, const MixingOptions& options, const StepKey& key) {
  const torch::NoGradGuard no_graph;
  std::vector<NamedTensors::Item> tensors(batch.tensors().begin(), batch.tensors().end());
  const at::Tensor& first =
      batch.tensors().contains("image") ? batch["image"] : tensors.front().second;
  const bool has_pixels = first.dim() == 4;
  std::vector<Mixture> mixtures;
  std::vector<double> own, everywhere;  // shares for labels, and for blending whole samples
  for (std::int64_t unit = 0; unit < batch.units(); ++unit) {
    const std::int64_t name =
        batch.indices.empty() ? unit : batch.indices[static_cast<std::size_t>(unit)];
    mixtures.push_back(draw_mixture(options, key, static_cast<std::uint32_t>(name),
                                    has_pixels ? first.size(2) : 1,
                                    has_pixels ? first.size(3) : 1));
    own.push_back(mixtures.back().share);
    everywhere.push_back(mixtures.back().box.height > 0 ? 1 : own.back());
  }
  const at::Tensor shares = send_to(batch.device(), torch::tensor(own, torch::kFloat));
  const at::Tensor blended = send_to(batch.device(), torch::tensor(everywhere, torch::kFloat));
  for (auto& [name, tensor] : tensors) {
    if (!tensor.is_floating_point()) continue;
    at::Tensor mixture = shifted(tensor);
    std::vector<std::int64_t> rows(static_cast<std::size_t>(tensor.dim()), 1);
    rows[0] = batch.units();
    const at::Tensor& share = name == kTarget ? shares : blended;
    mixture.lerp_(tensor, share.to(tensor.scalar_type()).reshape(rows));
    for (std::int64_t unit = 0; unit < batch.units() && tensor.dim() == 4; ++unit) {
      const MixedBox& box = mixtures[static_cast<std::size_t>(unit)].box;
      if (box.height == 0 || box.width == 0) continue;
      const auto in_box = [&](const at::Tensor& samples, std::int64_t row) {
        return samples[row]
            .slice(1, box.top, box.top + box.height)
            .slice(2, box.left, box.left + box.width);
      };
      in_box(mixture, unit).copy_(in_box(tensor, unit > 0 ? unit - 1 : batch.units() - 1));
    }
    tensor = std::move(mixture);
  }
  if (batch.tensors().contains("label")) {
    tensors.emplace_back("partner_label", shifted(batch["label"]));
    tensors.emplace_back("share", shares);
  }
  Batch result(NamedTensors(std::move(tensors)), batch.units());
  result.indices = batch.indices;
  return result;
}

}  // namespace stages
