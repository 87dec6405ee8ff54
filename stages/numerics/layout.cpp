#include "stages/numerics/layout.h"

#include <torch/nn/module.h>
#include <torch/types.h>

namespace stages {
namespace {

at::MemoryFormat memory_format(Layout layout) {
  return layout == Layout::kChannelsLast ? at::MemoryFormat::ChannelsLast
                                         : at::MemoryFormat::Contiguous;
}

}  // namespace

std::string_view name(Layout layout) {
  return layout == Layout::kChannelsLast ? "channels_last" : "contiguous";
}

void set_layout(torch::nn::Module& network, Layout layout) {
  const auto move = [&](at::Tensor tensor) {
    if (tensor.dim() != 4 || tensor.is_contiguous(memory_format(layout))) return;
    tensor.mutable_grad().reset();
    tensor.set_data(tensor.detach().contiguous(memory_format(layout)));
  };
  for (const at::Tensor& parameter : network.parameters()) move(parameter);
  for (const at::Tensor& buffer : network.buffers()) move(buffer);
}

Batch in_layout(const Batch& batch, Layout layout) {
  Batch result = batch;
  for (const auto& [name, tensor] : batch.tensors()) {
    if (tensor.dim() == 4 && tensor.is_floating_point()) {
      result = result.with(name, tensor.contiguous(memory_format(layout)));
    }
  }
  return result;
}

LayerCount count_layers(const torch::nn::Module& network) {
  LayerCount count;
  for (const at::Tensor& weight : network.parameters()) {
    if (weight.dim() < 2) continue;
    ++count.all;
    if (weight.dim() == 4 && weight.size(1) > 3) ++count.convolutions;
  }
  return count;
}

Layout choose_layout(const LayerCount& layers, at::DeviceType device, bool reduced) {
  const bool convolves = layers.convolutions > 0 && 4 * layers.convolutions >= layers.all;
  const bool gains = device != at::kCUDA || reduced;
  return convolves && gains ? Layout::kChannelsLast : Layout::kContiguous;
}

}  // namespace stages
