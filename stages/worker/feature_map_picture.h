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

/// Throws a runner::StageError that names the model's stage if a network has no feature maps.
void check_feature_maps(torch::nn::Module& network, const Checkpoint& checkpoint);

/// Returns the Grad-CAM map of a convolutional network (Selvaraju et al., "Grad-CAM", 2017): the
/// positive part of the sum of the last feature maps, each weighted by the mean gradient of a
/// class's logit, or of a predicted number, with respect to it. `pixels` (1, 3, height, width) must
/// be prepared as for a prediction and be on the network's device. `logit` is a column index into
/// the logits. If `sign` is -1, the map shows the evidence against the class, or what lowers the
/// number. Returns (height', width') float32 on the CPU, at most 1. Throws the same errors as
/// check_feature_maps().
at::Tensor class_activation(torch::nn::Module& network, const Checkpoint& checkpoint,
                            const at::Tensor& pixels, std::int64_t logit, double sign);

/// Returns the image as the network saw it, overlaid with the result of class_activation() in red;
/// the stronger the activation, the redder.
Image activation_picture(const at::Tensor& pixels, const at::Tensor& activation,
                         const ImageDatasetOptions& transform);

/// Writes the image from activation_picture() into `folder` as <name of the
/// file>.<index>.<what>.png. Throws runner::WriteError.
void write_activation(const std::string& folder, const std::string& file, std::int64_t index,
                      const std::string& what, const at::Tensor& pixels,
                      const at::Tensor& activation, const ImageDatasetOptions& transform);

}  // namespace stages
