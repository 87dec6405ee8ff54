#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include <c10/core/Device.h>
#include <nlohmann/json_fwd.hpp>

#include "stages/numerics/layout.h"
#include "stages/numerics/precision_map.h"

namespace runner {
class RunContext;
}

namespace stages {

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
