#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include <c10/core/Device.h>
#include <nlohmann/json_fwd.hpp>

#include "stages/numerics/precision_map.h"
#include "stages/tensor/batch.h"

namespace torch::nn {
class Module;
}

namespace runner {
class RunContext;
}

namespace stages {

/// The memory format of images and convolution weights: channel by channel, each stored row by row,
/// or pixel by pixel, each with all of its channels. The values are the same, and so are all
/// results in exact arithmetic.
enum class Layout { kContiguous, kChannelsLast };

/// Returns "contiguous" or "channels_last".
std::string_view name(Layout layout);

/// Converts all four-dimensional parameters and buffers to `layout`; those already in `layout` are
/// not touched. The tensor objects stay the same, so an optimizer keeps them, but they lose their
/// gradients.
void set_layout(torch::nn::Module& network, Layout layout);

/// Returns the batch with its four-dimensional floating-point tensors in `layout`. Tensors already
/// in `layout` are returned unchanged.
Batch in_layout(const Batch& batch, Layout layout);

/// The rule that `layout: auto` uses. If the rule changes, so must its number.
constexpr std::string_view kLayoutRule = "layout-1";

/// The number of layers in a network that multiply by a matrix. `convolutions` counts those with
/// more than three input channels per group, which excludes input layers for images and depthwise
/// layers.
struct LayerCount {
  std::int64_t convolutions = 0, all = 0;
};
LayerCount count_layers(const torch::nn::Module& network);

/// Returns the layout that kLayoutRule chooses: channels last if at least a quarter of the layers
/// are convolutions. On a GPU, they must also be able to use tensor cores (`reduced`: in bf16, fp16
/// or TF32).
Layout choose_layout(const LayerCount& layers, at::DeviceType device, bool reduced);

/// A recipe's settings for how networks compute.
struct NumericsOptions {
  PrecisionMap precision;  ///< each rule begins with the name of the network's stage
  bool tf32 = false;
  std::optional<Layout> layout = {};  ///< nullopt: kLayoutRule decides
  std::string pointer = {};           ///< location in the recipe, "/memory"
};

/// How a network computes, with all open choices of the recipe resolved. All code that runs a
/// network follows these settings.
struct Numerics {
  PrecisionMap precision;  ///< its rules are paths in the network
  bool tf32 = false;
  Layout layout = Layout::kContiguous;
  std::string layout_rule;  ///< the rule that chose the layout, "layout-1"; empty if the recipe
                            ///< chose it

  bool operator==(const Numerics&) const = default;
};

/// Resolves `options` for `network` on the context's device. `name` is the stage that creates the
/// network. Reports what was chosen and which options have no effect. Throws runner::StageError if
/// a precision rule does not match the network.
Numerics choose_numerics(const NumericsOptions& options, const torch::nn::Module& network,
                         const std::string& name, runner::RunContext& context);
/// Resolves `options` for `network` on `device`; messages go to `say`.
Numerics choose_numerics(const NumericsOptions& options, const torch::nn::Module& network,
                         const std::string& name, c10::Device device,
                         const std::function<void(std::string_view)>& say);

/// Returns {"precision": "bf16" or {"default": "bf16", "modules": {"head": "fp32"}}, "tf32",
/// "layout", "layout_rule"}. "layout_rule" is left out if the recipe chose the layout.
nlohmann::ordered_json to_json(const Numerics& numerics);

}  // namespace stages
