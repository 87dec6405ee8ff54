#include "stages/machine/versions.h"

#include <torch/version.h>

#include <ATen/Version.h>

#include <nlohmann/json.hpp>

#include "stages/machine/cgroup.h"
#include "stages/machine/device.h"
#include "stages/machine/memory_meter.h"
#include "stages/machine/threads.h"

#ifdef RETORT_LIBTORCH_CUDA
#include <ATen/cuda/CUDAContextLight.h>
#include <ATen/detail/CUDAHooksInterface.h>
#endif

namespace stages {

using Json = nlohmann::ordered_json;

Json versions() {
  Json json = {{"libtorch", TORCH_VERSION}, {"cuda_runtime", nullptr}, {"compiler", __VERSION__}};
#ifdef RETORT_LIBTORCH_CUDA
  const long cuda = at::detail::getCUDAHooks().versionCUDART();  // 13000 is 13.0
  json["cuda_runtime"] = std::to_string(cuda / 1000) + "." + std::to_string(cuda % 1000 / 10);
#endif
  return json;
}

Json devices_and_versions() {
  Json json = versions();
  const Gpus gpus = find_gpus();
  json["devices"] = Json::array();
  json["devices"].push_back({{"name", "cpu"}, {"memory_bytes", MemoryMeter(c10::kCPU).budget()}});
#ifdef RETORT_LIBTORCH_CUDA
  for (int i = 0; i < gpus.count; ++i) {
    const auto* properties = at::cuda::getDeviceProperties(static_cast<c10::DeviceIndex>(i));
    json["devices"].push_back(
        {{"name", "cuda:" + std::to_string(i)},
         {"model", properties->name},
         {"memory_bytes", properties->totalGlobalMem},
         {"capability", std::to_string(properties->major) + "." + std::to_string(properties->minor)}});
  }
#endif
  json["gpus_missing_because"] = gpus.why_none;
  json["threads"] = use_threads(std::nullopt);
  json["cpu_capability"] = at::get_cpu_capability();
  return json;
}

}  // namespace stages
