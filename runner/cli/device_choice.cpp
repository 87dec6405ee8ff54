#include "runner/cli/device_choice.h"

#include <thread>

#include <nlohmann/json.hpp>

#include "runner/cli/weights_source.h"
#include "runner/devices/nvml.h"
#include "runner/record/node_index.h"
#include "runner/run/chosen_device.h"

namespace runner {
namespace {

DeviceWish wish_of(const DeviceUse& use) {
  DeviceWish wish = device_wish(use.recipe);
  return use.run ? wish_again(std::move(wish), *use.run) : wish;
}

}  // namespace

DeviceWorld device_world(DeviceSource& source, Console& console) {
  return {.source = source,
          .cuda = RETORT_CUDA_VERSION,
          .say =
              [&console](const std::string& line) {
                if (!console.is_quiet()) console.err << line << std::endl;
              },
          .sleep = [](std::chrono::steady_clock::duration time) { std::this_thread::sleep_for(time); }};
}

Result<OwnDevice> take_own_device(const DeviceUse& use, Console& console) {
  const DeviceWish wish = wish_of(use);
  Nvml nvml;
  ProgressDisplay display(console.err, standard_error_display(console.verbosity));
  const NeedOf need =
      use.reuse ? planned_need(use.graph, use.worker, *use.reuse, use.is_resumed, node_index_folder(), display)
                : [](const DeviceFacts&) { return Result<DeviceNeed>(DeviceNeed{}); };
  auto taken = take_device(wish, need, device_world(nvml, console));
  if (!taken) return placed(taken.errors(), use.recipe);
  hand_over(*taken, use.graph, use.worker);
  nlohmann::ordered_json record = device_record(wish, *taken);
  return OwnDevice{*std::move(taken), std::move(record)};
}

Diagnostics use_likely_device(const DeviceUse& use, Console& console) {
  Nvml nvml;
  const auto likely = likely_device(wish_of(use), device_world(nvml, console));
  if (!likely) return placed(likely.errors(), use.recipe);
  hand_over(*likely, use.graph, use.worker);
  return {};
}

}  // namespace runner
