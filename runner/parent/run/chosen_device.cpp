#include "runner/parent/run/chosen_device.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "runner/parent/run/plan_request.h"

namespace runner {

namespace {

constexpr std::string_view kVisible = "CUDA_VISIBLE_DEVICES=";

void show_only(const std::string& devices, WorkerCommand& worker) {
  std::erase_if(worker.variables,
                [](const std::string& variable) { return variable.starts_with(kVisible); });
  worker.variables.push_back(std::string(kVisible) + devices);
}

}  // namespace

void hand_over(const TakenDevice& device, WorkerCommand& worker) {
  if (device.is_only_visible) return show_only(device.device->uuid, worker);
  std::erase_if(worker.variables,
                [](const std::string& variable) { return variable.starts_with(kVisible); });
}

WorkerCommand without_gpus(WorkerCommand worker) {
  show_only("", worker);
  return worker;
}

std::string OwnDevice::text() const {
  return taken.device ? device_text(*taken.device) : taken.select;
}

nlohmann::ordered_json device_record(const DeviceRequest& request, const TakenDevice& device) {
  nlohmann::ordered_json json = {{"asked", request.select}, {"why", device.why}};
  if (!device.device) return json;
  json["index"] = device.device->index;
  if (device.device->instance) json["instance"] = *device.device->instance;
  json["uuid"] = device.device->uuid;
  json["name"] = device.device->name;
  json["driver"] = device.driver;
  json["is_only_visible"] = device.is_only_visible;
  return json;
}

DeviceRequest request_again(DeviceRequest request, const RecordedRun& run) {
  if (run.device == "cpu") {
    request.select = "cpu";
  } else if (!run.device_uuid.empty()) {
    request.select = "cuda";
    request.preferred = run.device_uuid;
    std::erase(request.fallback, "cpu");
  } else {
    request.select = run.device;
  }
  return request;
}

namespace {

/// Returns the GPU model to plan for; the worker cannot look it up, because it sees no GPU.
std::string model_of(const DeviceFacts& device) {
  return device.name.empty() ? gpu_place(device) : device.name;
}

}  // namespace

NeedOf needed_by_prediction(const WorkerCommand& worker, const nlohmann::ordered_json& request,
                            ProgressDisplay& display) {
  return [&worker, &request, &display](const DeviceFacts& device) -> Result<DeviceNeed> {
    nlohmann::ordered_json asked = request;
    asked["plan_for"] = model_of(device);
    const auto answer =
        ask_worker(without_gpus(worker), asked, shown_conversation(display, "predict"));
    display.clear();
    if (!answer) return answer.errors();
    const auto needed = answer->find("needed");
    const bool is_known = needed != answer->end() && needed->is_number_integer() && *needed > 0;
    return is_known ? DeviceNeed{*needed, "the plan for the prediction"} : DeviceNeed{};
  };
}

void plan_on(const DeviceFacts& device, PlanRequest& request) {
  request.device_model = model_of(device);
  request.graph.device = "cuda";
  const auto most = device.free ? device.free : device.total;
  if (most) request.budget = {"the free memory of " + gpu_place(device), *most};
}

NeedOf needed_by_run(const RunToPlan& run, ProgressDisplay& display) {
  return [run, &display](const DeviceFacts& device) -> Result<DeviceNeed> {
    PlanRequest request{.graph = run.graph,
                        .budget = std::nullopt,
                        .device_model = "",
                        .alternatives = false,
                        .certify = false,
                        .trained = run.trained,
                        .reuse = run.reuse,
                        .node_index = run.node_index};
    plan_on(device, request);
    const auto answer = ask_for_plan(without_gpus(run.worker), request, display);
    if (!answer) return answer.errors();
    // The search handles plans that do not fit; plans that require real steps are made later, on
    // the GPU. Any other error would also end the run.
    Diagnostics errors = answer->diagnostics;
    std::erase_if(errors, [](const Diagnostic& one) {
      return one.severity != Severity::kError || one.code == ErrorCode::kOutOfMemory ||
             one.code == ErrorCode::kMeasuredPlan;
    });
    if (!errors.empty() && !run.is_resumed) return errors;
    const MemoryPlan* const largest = answer->largest_plan();
    return largest && largest->must_fit
               ? DeviceNeed{largest->needed, "the plan of " + largest->node}
               : DeviceNeed{};
  };
}

}  // namespace runner
