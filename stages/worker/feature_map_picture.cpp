#include "stages/worker/feature_map_picture.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <torch/autograd.h>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "runner/shared/stage/stage.h"
#include "stages/model/convolutional_classifier.h"
#include "stages/model/hosted_network.h"

namespace stages {
namespace {

[[noreturn]] void refuse_without_maps(const Checkpoint& checkpoint) {
  throw runner::StageError(runner::ErrorCode::kOptionConflict,
                           "the model of '" + checkpoint.model_stage +
                               "' has no feature maps to explain its predictions with")
      .with_help(
          "leave out --explain; it is for convolutional networks: model.se_resnext, model.cnn, and "
          "those of model.python that end in convolutions or in repeated blocks over an image's "
          "tokens");
}

ConvolutionalClassifierNetwork& network_with_maps(torch::nn::Module& network,
                                                  const Checkpoint& checkpoint) {
  if (auto* found = dynamic_cast<ConvolutionalClassifierNetwork*>(&network)) return *found;
  refuse_without_maps(checkpoint);
}

/// Returns the last feature maps, and the gradient of a logit with respect to them.
std::pair<at::Tensor, at::Tensor> maps_and_gradient(torch::nn::Module& network,
                                                    const Checkpoint& checkpoint,
                                                    const at::Tensor& pixels, std::int64_t logit,
                                                    double sign) {
  const at::AutoGradMode with_graph(true);
  if (auto* hosted = dynamic_cast<HostedNetwork*>(&network)) {
    // The weights may all be frozen, so the input must require a gradient.
    const at::Tensor input = pixels.detach().clone().requires_grad_();
    const auto [outputs, maps] = hosted->forward_with_maps(input);
    if (!maps.defined() || !outputs.contains("logits")) refuse_without_maps(checkpoint);
    const at::Tensor by_maps =
        torch::autograd::grad({outputs.at("logits")[0][logit] * sign}, {maps}, {}, {},
                              /*create_graph=*/false, /*allow_unused=*/true)
            .front();
    if (!by_maps.defined()) refuse_without_maps(checkpoint);
    return {maps.detach().to(at::kFloat), by_maps.to(at::kFloat)};
  }
  ConvolutionalClassifierNetwork& classifier = network_with_maps(network, checkpoint);
  at::Tensor maps;
  {
    const torch::NoGradGuard no_graph;
    maps = classifier.backbone().forward(pixels);
  }
  maps = maps.detach().to(at::kFloat).requires_grad_();
  const at::Tensor logits = classifier.head().forward(maps.mean({2, 3}));
  return {maps, torch::autograd::grad({logits[0][logit] * sign}, {maps}).front()};
}

/// Returns the value of a contiguous float map (rows, columns) at a place, given as fractions of
/// its width and height, by bilinear interpolation between the centers of its cells.
double interpolated(const at::Tensor& map, double across, double down) {
  const std::int64_t rows = map.size(0), columns = map.size(1);
  const auto* const values = map.const_data_ptr<float>();
  const double x = std::clamp(across * static_cast<double>(columns) - 0.5, 0.0,
                              static_cast<double>(columns - 1)),
               y = std::clamp(down * static_cast<double>(rows) - 0.5, 0.0,
                              static_cast<double>(rows - 1));
  const auto left = static_cast<std::int64_t>(x), top = static_cast<std::int64_t>(y);
  const std::int64_t right = std::min(left + 1, columns - 1), bottom = std::min(top + 1, rows - 1);
  const double part_right = x - static_cast<double>(left), part_down = y - static_cast<double>(top);
  const auto between = [&](std::int64_t row) {
    return (1 - part_right) * static_cast<double>(values[row * columns + left]) +
           part_right * static_cast<double>(values[row * columns + right]);
  };
  return (1 - part_down) * between(top) + part_down * between(bottom);
}

/// Converts a number from 0 to 1 to a byte.
std::uint8_t to_byte(double share) {
  return static_cast<std::uint8_t>(std::lround(255 * std::clamp(share, 0.0, 1.0)));
}

}  // namespace

void check_feature_maps(torch::nn::Module& network, const Checkpoint& checkpoint) {
  if (dynamic_cast<HostedNetwork*>(&network)) return;  // its maps are known only when it runs
  network_with_maps(network, checkpoint);
}

at::Tensor class_activation(torch::nn::Module& network, const Checkpoint& checkpoint,
                            const at::Tensor& pixels, std::int64_t logit, double sign) {
  const auto [maps, gradient] = maps_and_gradient(network, checkpoint, pixels, logit, sign);
  const at::Tensor weights = gradient.mean({2, 3}, /*keepdim=*/true);
  const at::Tensor activation = (weights * maps).sum(1).squeeze(0).relu().detach().to(at::kCPU);
  const double most = activation.max().item<double>();
  return most > 0 ? activation / most : activation;
}

Image activation_picture(SeenImage image, const at::Tensor& activation) {
  constexpr double kMostRed = 0.6, kDimmed = 0.5;
  const at::Tensor map = activation.to(at::kCPU, at::kFloat).contiguous();
  const Region& seen = image.seen;
  Image& picture = image.picture;
  for (int y = 0; y < picture.height; ++y) {
    const double down = (y + 0.5 - seen.top) / seen.height;
    std::uint8_t* value = picture.row(y);
    for (int x = 0; x < picture.width; ++x) {
      const double across = (x + 0.5 - seen.left) / seen.width;
      const bool is_seen = across >= 0 && across < 1 && down >= 0 && down < 1;
      const double red = is_seen ? kMostRed * interpolated(map, across, down) : 0,
                   kept = is_seen ? 1 - red : kDimmed;
      for (int channel = 0; channel < 3; ++channel, ++value)
        *value = to_byte(kept * *value / 255 + (channel == 0 ? red : 0));
    }
  }
  return std::move(picture);
}

}  // namespace stages
