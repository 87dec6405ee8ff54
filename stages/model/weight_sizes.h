#pragma once

#include "runner/shared/weights/pretrained_config.h"
#include "stages/tensor/named_tensors.h"

namespace stages {

/// The sizes of a vision tower that follow from the shapes of its weights, by whichever names they have; the tensors
/// may be on the Meta device. What does not follow is absent: the heads, the activation.
runner::PretrainedConfig sizes_of_weights(const NamedTensors& saved);

}  // namespace stages
