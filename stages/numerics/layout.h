#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "stages/tensor/batch.h"

namespace torch::nn {
class Module;
}

namespace stages {

/// In which order the numbers of an image, or of a convolution's weights, lie in memory: row by row
/// of one channel after another, or all channels of one pixel after another. The numbers are the
/// same, and so are all results in exact arithmetic.
enum class Layout { kContiguous, kChannelsLast };

/// "contiguous" and "channels_last".
std::string_view name(Layout layout);

/// Moves all parameters and buffers of four dimensions to `layout`; those that lie so already are
/// not touched. They stay the tensors that they are, so an optimizer that holds them keeps them,
/// but they lose their gradients.
void set_layout(torch::nn::Module& network, Layout layout);

/// The batch with its floating tensors of four dimensions in `layout`; of what lies so already, the
/// same tensors.
Batch in_layout(const Batch& batch, Layout layout);

/// What `layout: auto` goes by; another number is another rule.
constexpr std::string_view kLayoutRule = "layout-1";

/// The layers of a network that multiply by a matrix, and the convolutions among them that see more
/// than an image's three channels in a group: neither an input layer nor depthwise.
struct LayerCount {
  std::int64_t convolutions = 0, all = 0;
};
LayerCount count_layers(const torch::nn::Module& network);

/// What kLayoutRule says: channels last where a quarter of the layers or more are convolutions; on
/// a GPU only where they may run on its tensor cores (`reduced`: in bf16, fp16 or TF32).
Layout choose_layout(const LayerCount& layers, at::DeviceType device, bool reduced);

}  // namespace stages
