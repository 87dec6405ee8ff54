#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "stages/artifact/model.h"
#include "stages/data/image.h"
#include "stages/data/image_dataset.h"

namespace torch::nn {
class Module;
}

namespace stages {

/// Throws runner::StageError, naming the model's stage, for a network without feature maps.
void check_feature_maps(torch::nn::Module& network, const Checkpoint& checkpoint);

/// Where a convolutional network looked when it gave a class its logit: of `pixels` (1, 3, height,
/// width), prepared as for a prediction and on the network's device, the positive part of the last
/// feature maps, each weighted by the mean gradient of the logit by it (Selvaraju and others,
/// "Grad-CAM", 2017), (height', width') float32 on the CPU, at most 1. `logit` is the column of the
/// logits; `sign` -1 is for what speaks against it. Throws as check_feature_maps().
at::Tensor class_activation(torch::nn::Module& network, const Checkpoint& checkpoint,
                            const at::Tensor& pixels, std::int64_t logit, double sign);

/// The photograph as the network has seen it, and over it in red, as far as it counted, what
/// class_activation() found.
Image activation_picture(const at::Tensor& pixels, const at::Tensor& activation,
                         const ImageDatasetOptions& transform);

/// Writes that picture into `folder`, as <name of the file>.<index>.<what>.png. Throws
/// runner::WriteError.
void write_activation(const std::string& folder, const std::string& file, std::int64_t index,
                      const std::string& what, const at::Tensor& pixels,
                      const at::Tensor& activation, const ImageDatasetOptions& transform);

}  // namespace stages
