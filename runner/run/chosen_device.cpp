#include "runner/run/chosen_device.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "runner/run/plan_request.h"

namespace runner {

void hand_over(const TakenDevice& device, Graph& graph, WorkerCommand& worker) {
  graph.device = device.select;
  if (device.is_only_visible) worker.variables.push_back("CUDA_VISIBLE_DEVICES=" + device.device->uuid);
}

nlohmann::ordered_json device_record(const DeviceWish& wish, const TakenDevice& device) {
  nlohmann::ordered_json json = {{"asked", wish.select}, {"why", device.why}};
  if (!device.device) return json;
  json["index"] = device.device->index;
  if (device.device->instance) json["instance"] = *device.device->instance;
  json["uuid"] = device.device->uuid;
  json["name"] = device.device->name;
  json["driver"] = device.driver;
  json["is_only_visible"] = device.is_only_visible;
  return json;
}

DeviceWish wish_again(DeviceWish wish, const RecordedRun& run) {
  if (run.device == "cpu") {
    wish.select = "cpu";
    wish.written.clear();
  } else if (!run.device_uuid.empty()) {
    wish.select = "cuda";
    wish.preferred = run.device_uuid;
    std::erase(wish.fallback, "cpu");
  } else {
    wish.select = run.device;
  }
  return wish;
}

NeedOf planned_need(const Graph& graph, const WorkerCommand& worker, ReuseOptions::Which reuse, bool is_resumed,
                    const std::filesystem::path& node_index, ProgressDisplay& display) {
  return [&graph, &worker, reuse, is_resumed, node_index, &display](const DeviceFacts& device) -> Result<DeviceNeed> {
    PlanRequest request{.graph = graph,
                        .budget = std::nullopt,
                        .device_model = device.name.empty() ? gpu_place(device) : device.name,
                        .alternatives = false,
                        .certify = false,
                        .reuse = reuse,
                        .node_index = node_index};
    request.graph.device = "cuda";
    const auto most = device.free ? device.free : device.total;
    if (most) request.budget = {"the free memory of " + gpu_place(device), *most};
    WorkerCommand blind = worker;
    blind.variables.push_back("CUDA_VISIBLE_DEVICES=");
    const auto answer = ask_for_plan(blind, request, display);
    if (!answer) return answer.errors();
    // That it does not fit is for the search to know; the others would end the run as well.
    Diagnostics errors = answer->diagnostics;
    std::erase_if(errors, [](const Diagnostic& one) {
      return one.severity != Severity::kError || one.code == ErrorCode::kOutOfMemory;
    });
    if (!errors.empty() && !is_resumed) return errors;
    const MemoryPlan* const largest = answer->largest_plan();
    return largest ? DeviceNeed{largest->predicted, "the plan of " + largest->node} : DeviceNeed{};
  };
}

}  // namespace runner
