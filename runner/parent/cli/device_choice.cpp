#include "runner/parent/cli/device_choice.h"

#include <thread>

#include <nlohmann/json.hpp>

#include "runner/parent/cli/weights_source.h"
#include "runner/parent/devices/nvml.h"
#include "runner/shared/record/node_index.h"
#include "runner/parent/run/chosen_device.h"

namespace runner {
namespace {

DeviceWish wish_of(const DeviceUse& use) {
  DeviceWish wish = device_wish(use.recipe);
  return use.run ? wish_again(std::move(wish), *use.run) : wish;
}

}  // namespace

DeviceWorld device_world(DeviceSource& source, Console& console, SignalWait* wait) {
  return {.source = source,
          .cuda = RETORT_CUDA_VERSION,
          .say =
              [&console](const std::string& line) {
                if (!console.is_quiet()) console.err << line << std::endl;
              },
          .sleep = [wait](std::chrono::steady_clock::duration time) -> std::optional<int> {
            if (wait) return (*wait)(time);
            std::this_thread::sleep_for(time);
            return std::nullopt;
          }};
}

namespace {

/// The device that `wish` asks for, taken, and its record, in which the recipe has asked for `asked`.
Result<OwnDevice> taken_for(const DeviceUse& use, const DeviceWish& wish, const DeviceWish& asked, Console& console) {
  Nvml nvml;
  SignalWait wait;
  ProgressDisplay display(console.err, standard_error_display(console.verbosity), SecretTexts(use.recipe));
  NeedOf need = use.need ? use.need : [](const DeviceFacts&) { return Result<DeviceNeed>(DeviceNeed{}); };
  if (use.reuse) {
    need = planned_need({.graph = use.graph,
                         .worker = use.worker,
                         .trained = use.trained,
                         .reuse = *use.reuse,
                         .is_resumed = use.is_resumed,
                         .node_index = node_index_folder()},
                        display);
  }
  auto taken = take_device(wish, need, device_world(nvml, console, &wait));
  if (!taken) return placed(taken.errors(), use.recipe);
  nlohmann::ordered_json record = device_record(asked, *taken);
  return OwnDevice{*std::move(taken), std::move(record)};
}

}  // namespace

Result<OwnDevice> take_own_device(const DeviceUse& use, Console& console) {
  const DeviceWish wish = wish_of(use);
  auto own = taken_for(use, wish, wish, console);
  if (!own) return own;
  use.graph.device = own->taken.select;
  hand_over(own->taken, use.worker);
  return own;
}

NextGpu next_gpu_for(const DeviceUse& use, Console& console) {
  return [use, &console](const std::vector<std::string>& left) -> Result<OwnDevice> {
    DeviceUse rest = use;
    rest.is_resumed = true;  // what is left to do is all that counts
    auto own = taken_for(rest, wish_for_another(device_wish(use.recipe), left), wish_of(use), console);
    if (own && !own->taken.device)
      return Diagnostic{ErrorCode::kDeviceUnavailable, {}, "", "which there are only CUDA knows", ""};
    return own;
  };
}

Diagnostics use_likely_device(const DeviceUse& use, Console& console) {
  Nvml nvml;
  const auto likely = likely_device(wish_of(use), device_world(nvml, console));
  if (!likely) return placed(likely.errors(), use.recipe);
  use.graph.device = likely->select;
  hand_over(*likely, use.worker);
  return {};
}

}  // namespace runner
