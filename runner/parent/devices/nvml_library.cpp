#include "runner/parent/devices/nvml_library.h"

#include <dlfcn.h>

namespace runner {
namespace {

template <typename Function>
void find_symbol(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
}

}  // namespace

Result<NvmlLibrary> NvmlLibrary::load(const std::string& name) {
  void* const handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char* const why = dlerror();
    return Diagnostic{ErrorCode::kDeviceUnavailable, {}, "", why ? why : "cannot load '" + name + "'", ""};
  }
  NvmlLibrary library;
  library.handle_.reset(handle, [](void* loaded) { dlclose(loaded); });
  find_symbol(handle, "nvmlInit_v2", library.init);
  find_symbol(handle, "nvmlShutdown", library.shutdown);
  find_symbol(handle, "nvmlErrorString", library.error_text);
  find_symbol(handle, "nvmlSystemGetDriverVersion", library.driver_version);
  find_symbol(handle, "nvmlSystemGetCudaDriverVersion_v2", library.cuda_version);
  find_symbol(handle, "nvmlDeviceGetCount_v2", library.count);
  find_symbol(handle, "nvmlDeviceGetHandleByIndex_v2", library.by_index);
  find_symbol(handle, "nvmlDeviceGetUUID", library.uuid);
  find_symbol(handle, "nvmlDeviceGetName", library.name);
  find_symbol(handle, "nvmlDeviceGetPciInfo_v3", library.pci);
  find_symbol(handle, "nvmlDeviceGetMemoryInfo", library.memory);
  find_symbol(handle, "nvmlDeviceGetMemoryInfo_v2", library.memory_v2);
  find_symbol(handle, "nvmlDeviceGetUtilizationRates", library.utilisation);
  find_symbol(handle, "nvmlDeviceGetComputeRunningProcesses_v3", library.compute_processes);
  find_symbol(handle, "nvmlDeviceGetGraphicsRunningProcesses_v3", library.graphics_processes);
  find_symbol(handle, "nvmlDeviceGetCudaComputeCapability", library.capability);
  find_symbol(handle, "nvmlDeviceGetMigMode", library.mig_mode);
  find_symbol(handle, "nvmlDeviceGetMaxMigDeviceCount", library.mig_count);
  find_symbol(handle, "nvmlDeviceGetMigDeviceHandleByIndex", library.mig_by_index);
  return library;
}

std::string NvmlLibrary::words(nvml::Return answer) const {
  const char* const text = error_text ? error_text(answer) : nullptr;
  return text ? text : "NVML's error " + std::to_string(answer);
}

}  // namespace runner
