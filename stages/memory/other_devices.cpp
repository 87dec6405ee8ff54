#include "stages/memory/other_devices.h"

#include "runner/error/stage_error.h"
#include "stages/machine/device_error.h"
#include "stages/memory/memory_incident.h"

namespace stages {

std::vector<std::string> other_devices(const MemoryPolicy& policy, c10::Device device) {
  std::vector<std::string> others;
  for (const OnOom what : policy.recovery.on_oom) {
    if (what == OnOom::kGpu && device.is_cuda()) others.emplace_back("gpu");
    if (what == OnOom::kCpu && !device.is_cpu()) others.emplace_back("cpu");
  }
  return others;
}

void run_or_go_elsewhere(const MemoryPolicy& policy, c10::Device device, const std::function<void()>& work) {
  try {
    work();
  } catch (const std::exception& error) {
    std::vector<std::string> others = other_devices(policy, device);
    if (others.empty() || !is_out_of_memory(error, device)) throw;
    runner::Recovery incident = memory_incident(device);
    throw runner::StageError(runner::ErrorCode::kOutOfMemory, in_words(incident))
        .with_help("use a smaller memory.micro_batch or model")
        .elsewhere(std::move(others), std::move(incident));
  }
}

}  // namespace stages
