#include <algorithm>
#include <memory>

#include <nlohmann/json.hpp>

#include "runner/parent/cli/command.h"
#include "runner/parent/cli/weights_source.h"
#include "runner/parent/devices/nvml.h"
#include "runner/parent/report/table_text.h"
#include "runner/shared/text/printable.h"
#include "runner/shared/text/units.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;

struct DevicesFlags {
  bool best = false;
  std::string need;  ///< the free memory that the GPU must have, "12GiB"
};

/// This machine's devices, and those that a run would see.
struct DeviceList {
  DeviceReading reading;
  VisibleDevices visible;
  std::string why_none;  ///< why a run cannot use a GPU here; empty if it can
};

Result<DeviceList> list_devices(DeviceSource& source, const DeviceWorld& world) {
  DeviceList list{.reading = source.read(), .visible = {}, .why_none = {}};
  list.why_none = why_no_gpu(list.reading, world.cuda);
  auto visible = visible_devices(list.reading, world.variables);
  if (!visible) return visible.errors();
  list.visible = *std::move(visible);
  if (!list.why_none.empty() || !list.visible.devices.empty()) return list;
  list.why_none =
      !list.visible.remark.empty() ? list.visible.remark : "the NVIDIA driver found no GPU";
  return list;
}

/// Returns the K of cuda:K; nullopt if the device is hidden by CUDA_VISIBLE_DEVICES or K is
/// unknown.
std::optional<std::size_t> cuda_index(const DeviceFacts& device, const VisibleDevices& visible) {
  const auto found = std::ranges::find(visible.devices, device.uuid, &DeviceFacts::uuid);
  if (found == visible.devices.end() || (!visible.in_cuda_order && visible.devices.size() > 1))
    return std::nullopt;
  return static_cast<std::size_t>(found - visible.devices.begin());
}

bool is_visible(const DeviceFacts& device, const VisibleDevices& visible) {
  return std::ranges::count(visible.devices, device.uuid, &DeviceFacts::uuid) > 0;
}

Json bytes_json(const std::optional<std::int64_t>& bytes) { return bytes ? Json(*bytes) : Json(); }

Json device_json(const DeviceFacts& device, const VisibleDevices& visible) {
  const auto cuda = cuda_index(device, visible);
  Json holders = Json::array();
  for (const DeviceHolder& holder : device.holders)
    holders.push_back({{"pid", holder.pid}, {"bytes", bytes_json(holder.bytes)}});
  return {{"index", device.index},
          {"instance", device.instance ? Json(*device.instance) : Json()},
          {"cuda", cuda ? Json("cuda:" + std::to_string(*cuda)) : Json()},
          {"visible", is_visible(device, visible)},
          {"uuid", device.uuid},
          {"bus_id", device.bus_id},
          {"name", device.name},
          {"capability", device.capability ? Json(std::to_string(device.capability / 10) + "." +
                                                  std::to_string(device.capability % 10))
                                           : Json()},
          {"total_bytes", bytes_json(device.total)},
          {"free_bytes", bytes_json(device.free)},
          {"reserved_bytes", bytes_json(device.reserved)},
          {"utilization", device.utilization ? Json(*device.utilization) : Json()},
          {"processes", std::move(holders)}};
}

Json list_json(const DeviceList& list) {
  Json devices = Json::array();
  for (const DeviceFacts& device : list.reading.devices)
    devices.push_back(device_json(device, list.visible));
  const int cuda = list.reading.cuda;
  return {{"driver", list.reading.driver.empty() ? Json() : Json(list.reading.driver)},
          {"cuda", cuda ? Json(std::to_string(cuda / 1000) + "." + std::to_string(cuda % 1000 / 10))
                        : Json()},
          {"devices", std::move(devices)},
          {"problems", list.reading.problems},
          {"why_none", list.why_none.empty() ? Json() : Json(list.why_none)}};
}

std::string known_bytes(const std::optional<std::int64_t>& bytes) {
  return bytes ? bytes_text(*bytes) : "-";
}

std::string list_text(const DeviceList& list, const TextStyle& style) {
  std::string text;
  if (!list.reading.devices.empty()) {
    std::vector<std::vector<std::string>> rows = {
        {"GPU", "cuda", "free", "total", "use", "name", "UUID", "held by"}};
    for (const DeviceFacts& device : list.reading.devices) {
      const auto cuda = cuda_index(device, list.visible);
      const std::string instance = device.instance ? ":" + std::to_string(*device.instance) : "";
      rows.push_back({std::to_string(device.index) + instance,
                      cuda                               ? std::to_string(*cuda)
                      : is_visible(device, list.visible) ? "?"
                                                         : "hidden",
                      known_bytes(device.free), known_bytes(device.total),
                      device.utilization ? std::to_string(*device.utilization) + "%" : "-",
                      printable(device.name), printable(device.uuid), holders_text(device)});
    }
    text = table_text(rows, style.table_width());
  }
  for (const std::string& problem : list.reading.problems) text += problem + '\n';
  if (!list.why_none.empty()) text += "runs use the CPU: " + list.why_none + '\n';
  else if (!list.visible.remark.empty()) text += list.visible.remark + '\n';
  if (!list.reading.help.empty()) text += "help: " + list.reading.help + '\n';
  return text;
}

/// Implements `retort devices --best`: shows what `device: auto` would choose now.
ExitCode show_best(const DeviceRequest& request, DeviceWorld world, Console& console) {
  world.say = [](const std::string&) {};
  const auto best = take_device(
      request, [](const DeviceFacts&) { return Result<DeviceNeed>(DeviceNeed{}); }, world);
  if (!best) return report(console, best.errors());
  if (console.json) {
    Json json = {{"select", best->select},
                 {"uuid", nullptr},
                 {"name", nullptr},
                 {"index", nullptr},
                 {"why", best->why}};
    if (best->device) {
      json["uuid"] = best->device->uuid;
      json["name"] = best->device->name;
      json["index"] = best->device->index;
    }
    print_result(console, "devices_best/1", json);
  } else {
    console.out << (best->device ? best->device->uuid : best->select) << '\n';
  }
  if (!console.is_quiet()) {
    console.err << (best->device ? device_text(*best->device) + ", " + state_text(*best->device)
                                 : std::string("cpu"))
                << ": " << best->why << '\n';
  }
  return ExitCode::kDone;
}

ExitCode show_devices(const DevicesFlags& flags, Console& console) {
  Nvml nvml;
  const DeviceWorld world = device_world(nvml, console);
  if (flags.best || !flags.need.empty()) {
    DeviceRequest request{.select = "auto", .need = 0};
    if (!flags.need.empty()) request.need = bytes_from(flags.need);
    if (!request.need) {
      return report(console, {{ErrorCode::kUsage,
                               {},
                               "",
                               "--need is not a size: '" + printable(flags.need) + "'",
                               "write a size such as 8GiB, 512MiB or 8GB"}});
    }
    return show_best(request, world, console);
  }
  const auto list = list_devices(nvml, world);
  if (!list) return report(console, list.errors());
  if (console.json) print_result(console, "devices/1", list_json(*list));
  else console.out << list_text(*list, console.style);
  return ExitCode::kDone;
}

Invocation declare_devices() {
  const auto flags = std::make_shared<DevicesFlags>();
  Invocation verb;
  verb.add(
      {.name = "--best",
       .value = &flags->best,
       .summary =
           "Print the UUID of the GPU that `device: auto` would choose now, or cpu, and say why"});
  verb.add(
      {.name = "--need",
       .value = &flags->need,
       .summary =
           "Like --best, but only among GPUs with this much free memory, such as 12GiB or 8000MB",
       .type = "SIZE"});
  verb.run = [flags](Console& console) { return show_devices(*flags, console); };
  return verb;
}

}  // namespace

const Command kDevicesCommand = {"devices",
                                 "Lists this machine's GPUs with their free memory and the "
                                 "processes that use them, and says which GPU a run would get.",
                                 "retort devices --best --need 12GiB", declare_devices};

}  // namespace runner
