#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "stages/artifact/model.h"
#include "stages/data/image.h"
#include "stages/data/seen_image.h"

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

/// Returns the image with the result of class_activation() in red over the part that the
/// network saw; the stronger the activation, the redder. The map is interpolated bilinearly. The
/// rest of the image is dimmed to half its brightness.
Image activation_picture(SeenImage image, const at::Tensor& activation);

}  // namespace stages
