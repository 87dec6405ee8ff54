#include "stages/numerics/numerics.h"

#include <torch/nn/module.h>
#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "runner/shared/stage/run_context.h"
#include "stages/numerics/precision_map.h"

namespace stages {
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
    say("tf32 has no effect on a CPU: it computes float32 products in float32");
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
