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

/// The memory format of an image's or a convolution weight's numbers: one channel after another,
/// row by row, or all channels of one pixel after another. The values are the same, and in exact
/// arithmetic so are all results.
enum class Layout { kContiguous, kChannelsLast };

/// "contiguous" and "channels_last".
std::string_view name(Layout layout);

/// Moves all four-dimensional parameters and buffers to `layout`; those already in it are not
/// touched. They stay the same tensors, so an optimizer that holds them keeps them, but they lose
/// their gradients.
void set_layout(torch::nn::Module& network, Layout layout);

/// The batch with its four-dimensional floating-point tensors in `layout`; tensors already in it
/// are returned unchanged.
Batch in_layout(const Batch& batch, Layout layout);

/// The rule that `layout: auto` uses; another number is another rule.
constexpr std::string_view kLayoutRule = "layout-1";

/// The layers of a network that multiply by a matrix; `convolutions` counts those with more than an
/// image's three channels per group, so neither an input layer nor a depthwise one.
struct LayerCount {
  std::int64_t convolutions = 0, all = 0;
};
LayerCount count_layers(const torch::nn::Module& network);

/// What kLayoutRule chooses: channels last if a quarter of the layers or more are convolutions; on
/// a GPU only if they may run on its tensor cores (`reduced`: in bf16, fp16 or TF32).
Layout choose_layout(const LayerCount& layers, at::DeviceType device, bool reduced);

/// What a recipe says about how networks compute.
struct NumericsOptions {
  PrecisionMap precision;  ///< each rule begins with the name of the stage that makes the network
  bool tf32 = false;
  std::optional<Layout> layout = {};  ///< nullopt: by kLayoutRule
  std::string pointer = {};           ///< place in the recipe, "/memory"
};

/// How a network computes, with everything decided that a recipe leaves open. All code that runs a
/// network obeys all of it.
struct Numerics {
  PrecisionMap precision;  ///< its rules are paths in the network
  bool tf32 = false;
  Layout layout = Layout::kContiguous;
  std::string layout_rule;  ///< the rule that chose the layout, "layout-1"; empty: the recipe chose
                            ///< it

  bool operator==(const Numerics&) const = default;
};

/// What `options` ask for, for `network` on the context's device. `name` is the stage that makes
/// the network. Reports what was chosen and what has no effect here. Throws runner::StageError if a
/// precision rule does not fit this network.
Numerics choose_numerics(const NumericsOptions& options, const torch::nn::Module& network,
                         const std::string& name, runner::RunContext& context);
/// The same on `device`; messages go to `say`.
Numerics choose_numerics(const NumericsOptions& options, const torch::nn::Module& network,
                         const std::string& name, c10::Device device,
                         const std::function<void(std::string_view)>& say);

/// {"precision": "bf16" or {"default": "bf16", "modules": {"head": "fp32"}}, "tf32", "layout",
/// "layout_rule"}; the rule only if there is one.
nlohmann::ordered_json to_json(const Numerics& numerics);

}  // namespace stages
