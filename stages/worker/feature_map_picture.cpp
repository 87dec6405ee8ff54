#include "stages/worker/feature_map_picture.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include <torch/autograd.h>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "runner/shared/disk/new_file.h"
#include "runner/shared/stage/stage.h"
#include "stages/data/image_writer.h"
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
          "those of model.python that end in convolutions");
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
        torch::autograd::grad({outputs.at("logits")[0][logit] * sign}, {maps}).front();
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

/// Converts a number from 0 to 1 to a byte.
std::uint8_t to_byte(double share) {
  return static_cast<std::uint8_t>(std::lround(255 * std::clamp(share, 0.0, 1.0)));
}

}  // namespace

void check_feature_maps(torch::nn::Module& network, const Checkpoint& checkpoint) {
  if (dynamic_cast<HostedNetwork*>(&network)) return;  // only known when it runs
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

Image activation_picture(const at::Tensor& pixels, const at::Tensor& activation,
                         const ImageDatasetOptions& transform) {
  const std::int64_t height = pixels.size(2), width = pixels.size(3);
  const at::Tensor heat =
      torch::upsample_bilinear2d(activation.unsqueeze(0).unsqueeze(0), {height, width},
                                 /*align_corners=*/false)
          .contiguous();
  const at::Tensor seen = pixels.to(at::kCPU, at::kFloat).contiguous();
  const auto* strengths = heat.const_data_ptr<float>();
  const auto* values = seen.const_data_ptr<float>();
  constexpr double kMostRed = 0.6;
  Image picture(static_cast<int>(width), static_cast<int>(height));
  for (std::int64_t y = 0; y < height; ++y) {
    std::uint8_t* row = picture.row(static_cast<int>(y));
    for (std::int64_t x = 0; x < width; ++x) {
      const double red = kMostRed * static_cast<double>(strengths[y * width + x]);
      for (std::size_t channel = 0; channel < 3; ++channel) {
        const double value =
            static_cast<double>(
                values[(static_cast<std::int64_t>(channel) * height + y) * width + x]) *
                transform.standard_deviation[channel] +
            transform.mean[channel];
        row[3 * x + static_cast<std::int64_t>(channel)] =
            to_byte((1 - red) * value + (channel == 0 ? red : 0));
      }
    }
  }
  return picture;
}

void write_activation(const std::string& folder, const std::string& file, std::int64_t index,
                      const std::string& what, const at::Tensor& pixels,
                      const at::Tensor& activation, const ImageDatasetOptions& transform) {
  const auto bytes = png_file(activation_picture(pixels, activation, transform));
  std::string name = std::filesystem::path(file).stem().string() + "." + std::to_string(index) +
                     "." + what + ".png";
  std::ranges::replace_if(
      name, [](char letter) { return letter == '/' || letter == ' '; }, '_');
  runner::write_atomically(std::filesystem::path(folder) / name,
                           {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

}  // namespace stages
