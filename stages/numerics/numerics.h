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

/// What a recipe says about how networks compute.
struct NumericsOptions {
  PrecisionMap precision;  ///< its rules begin with the name of the stage that makes the network
  bool tf32 = false;
  std::optional<Layout> layout = {};  ///< nullopt: as kLayoutRule says
  std::string pointer = {};           ///< where the recipe says it, "/memory"
};

/// How a network computes what it computes: what a recipe leaves open is decided here. Whoever runs
/// a network obeys all of it.
struct Numerics {
  PrecisionMap precision;  ///< its rules are paths in the network
  bool tf32 = false;
  Layout layout = Layout::kContiguous;
  std::string layout_rule;  ///< what chose the layout, "layout-1"; empty: the recipe did

  bool operator==(const Numerics&) const = default;
};

/// What `options` ask for, for `network` on the context's device. `name` is the stage that makes
/// the network. Says what has been chosen, and what has no effect here. Throws runner::StageError
/// where a rule of the precision is not one for this network.
Numerics choose_numerics(const NumericsOptions& options, const torch::nn::Module& network,
                         const std::string& name, runner::RunContext& context);
/// The same on `device`; `say` gets the lines.
Numerics choose_numerics(const NumericsOptions& options, const torch::nn::Module& network,
                         const std::string& name, c10::Device device,
                         const std::function<void(std::string_view)>& say);

/// {"precision": "bf16" or {"default": "bf16", "modules": {"head": "fp32"}}, "tf32", "layout",
/// "layout_rule"}; the rule only where there is one.
nlohmann::ordered_json to_json(const Numerics& numerics);

}  // namespace stages
