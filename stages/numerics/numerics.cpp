#include "stages/numerics/numerics.h"

#include <torch/nn/module.h>
#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "runner/shared/stage/run_context.h"
#include "stages/numerics/precision_map.h"

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

namespace {

using Json = nlohmann::ordered_json;

void choose_layout(Numerics& numerics, const NumericsOptions& options,
                   const torch::nn::Module& network, at::DeviceType device,
                   const std::function<void(std::string_view)>& say) {
  const LayerCount layers = count_layers(network);
  if (options.layout) {
    numerics.layout = *options.layout;
    const bool has_images =
        std::ranges::any_of(network.parameters(), [](const auto& one) { return one.dim() == 4; });
    if (numerics.layout == Layout::kChannelsLast && !has_images) {
      say("layout: channels_last has no effect: the network has no convolution");
    }
    return;
  }
  const bool reduced = numerics.tf32 || numerics.precision.base != Precision::kFp32;
  numerics.layout = choose_layout(layers, device, reduced);
  numerics.layout_rule = kLayoutRule;
  if (numerics.layout == Layout::kContiguous) return;
  say("layout: " + std::string(name(numerics.layout)) + " by the rule " + numerics.layout_rule +
      ": " + std::to_string(layers.convolutions) + " of " + std::to_string(layers.all) +
      " layers are convolutions");
}

Json to_json(const PrecisionMap& map) {
  const std::string base(name(map.base));
  if (map.rules.empty()) return base;
  Json modules = Json::object();
  for (const PrecisionRule& rule : map.rules) modules[rule.modules] = name(rule.precision);
  return {{"default", base}, {"modules", std::move(modules)}};
}

}  // namespace

Numerics choose_numerics(const NumericsOptions& options, const torch::nn::Module& network,
                         const std::string& name, runner::RunContext& context) {
  const Numerics numerics =
      choose_numerics(options, network, name, at::Device(context.node().device),
                      [&](std::string_view line) { context.say(line); });
  context.debug("numerics: " + to_json(numerics).dump());
  return numerics;
}

Numerics choose_numerics(const NumericsOptions& options, const torch::nn::Module& network,
                         const std::string& name, at::Device device,
                         const std::function<void(std::string_view)>& say) {
  Numerics numerics;
  numerics.precision = rules_for(network, name, options.precision, options.pointer);
  numerics.tf32 = options.tf32;
  if (numerics.tf32 && device.is_cpu())
    say("tf32 has no effect on the CPU: it computes float32 products in float32");
  choose_layout(numerics, options, network, device.type(), say);
  return numerics;
}

Json to_json(const Numerics& numerics) {
  Json json = {{"precision", to_json(numerics.precision)},
               {"tf32", numerics.tf32},
               {"layout", name(numerics.layout)}};
  if (!numerics.layout_rule.empty()) json["layout_rule"] = numerics.layout_rule;
  return json;
}

}  // namespace stages
