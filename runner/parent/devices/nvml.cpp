#include "runner/parent/devices/nvml.h"
#include "runner/shared/disk/parked_thread.h"

#include <algorithm>
#include <array>
#include <map>
#include <system_error>
#include <utility>

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
    return Diagnostic{
        ErrorCode::kDeviceUnavailable, {}, "", why ? why : "cannot load '" + name + "'", ""};
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
  find_symbol(handle, "nvmlDeviceGetUtilizationRates", library.utilization);
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
  return text ? text : "NVML error " + std::to_string(answer);
}

namespace {

constexpr char kTooOld[] = "update the NVIDIA driver to 580 or later";

/// A session with the NVIDIA driver.
class NvmlSession {
 public:
  explicit NvmlSession(const NvmlLibrary& library)
      : library_(library), begun_(NvmlLibrary::call(library.init)) {}
  ~NvmlSession() {
    if (begun_ == nvml::kSuccess) NvmlLibrary::call(library_.shutdown);
  }
  NvmlSession(const NvmlSession&) = delete;
  NvmlSession& operator=(const NvmlSession&) = delete;
  nvml::Return begun() const { return begun_; }

 private:
  const NvmlLibrary& library_;
  const nvml::Return begun_;
};

/// Returns why the driver cannot be queried, and how to fix it.
std::pair<std::string, std::string> why_not_begun(const NvmlLibrary& library, nvml::Return answer) {
  if (answer == nvml::kFunctionNotFound)
    return {"the NVIDIA driver is too old to be queried", kTooOld};
  if (answer == nvml::kDriverNotLoaded)
    return {"the NVIDIA driver is installed but not loaded",
            "load it: `modprobe nvidia` as root, or restart the machine"};
  if (answer == nvml::kVersionMismatch)
    return {"the running NVIDIA driver is not the installed one", "restart the machine"};
  return {"the NVIDIA driver cannot be queried: " + library.words(answer),
          "`nvidia-smi` may show more"};
}

std::string problem_text(const NvmlLibrary& library, nvml::Return answer) {
  if (answer == nvml::kGpuIsLost)
    return "it is lost: it has fallen off the bus or failed; restart the machine";
  if (answer == nvml::kResetRequired) return "it must be reset: `nvidia-smi --gpu-reset` as root";
  if (answer == nvml::kNoPermission) return "you do not have permission to use it";
  return library.words(answer);
}

/// Reads the GPUs of one driver.
class NvmlReader {
 public:
  explicit NvmlReader(const NvmlLibrary& library) : library_(library) {}

  void read(DeviceReading& reading) {
    std::array<char, nvml::kTextSize> version{};
    if (NvmlLibrary::call(library_.driver_version, version.data(), nvml::kTextSize) ==
        nvml::kSuccess)
      reading.driver = version.data();
    NvmlLibrary::call(library_.cuda_version, &reading.cuda);
    unsigned count = 0;
    const nvml::Return answer = NvmlLibrary::call(library_.count, &count);
    if (answer != nvml::kSuccess) {
      std::tie(reading.why_none, reading.help) = why_not_begun(library_, answer);
      return;
    }
    for (unsigned i = 0; i < count; ++i) read_gpu(i, reading);
  }

 private:
  void read_gpu(unsigned index, DeviceReading& reading) {
    DeviceFacts gpu{.index = static_cast<int>(index)};
    nvml::Device handle = nullptr;
    nvml::Return answer = NvmlLibrary::call(library_.by_index, index, &handle);
    if (answer == nvml::kSuccess) answer = read_text(library_.uuid, handle, gpu.uuid);
    if (answer != nvml::kSuccess) {
      reading.problems.push_back(gpu_place(gpu) + ": " + problem_text(library_, answer));
      return;
    }
    gpu.gpu_uuid = gpu.uuid;
    nvml::PciInfo pci{};
    if (NvmlLibrary::call(library_.pci, handle, &pci) == nvml::kSuccess) gpu.bus_id = pci.bus_id;
    int major = 0, minor = 0;
    if (NvmlLibrary::call(library_.capability, handle, &major, &minor) == nvml::kSuccess)
      gpu.capability = 10 * major + minor;
    unsigned is_divided = 0, pending = 0;
    const bool has_mode =
        NvmlLibrary::call(library_.mig_mode, handle, &is_divided, &pending) == nvml::kSuccess;
    if (has_mode && is_divided == 1) return read_instances(handle, gpu, reading);
    if (const nvml::Return lost = read_rest(handle, gpu); lost != nvml::kSuccess)
      reading.problems.push_back(gpu_place(gpu) + ": " + problem_text(library_, lost));
    else reading.devices.push_back(std::move(gpu));
  }

  /// Reads the MIG instances of a partitioned GPU. CUDA computes only on these instances.
  void read_instances(nvml::Device gpu_handle, const DeviceFacts& gpu, DeviceReading& reading) {
    unsigned most = 0;
    NvmlLibrary::call(library_.mig_count, gpu_handle, &most);
    int found = 0;
    for (unsigned i = 0; i < most; ++i) {
      DeviceFacts instance = gpu;
      nvml::Device handle = nullptr;
      if (NvmlLibrary::call(library_.mig_by_index, gpu_handle, i, &handle) != nvml::kSuccess)
        continue;
      if (read_text(library_.uuid, handle, instance.uuid) != nvml::kSuccess) continue;
      instance.instance = found++;
      if (read_rest(handle, instance) == nvml::kSuccess)
        reading.devices.push_back(std::move(instance));
    }
    if (found == 0)
      reading.problems.push_back(
          gpu_place(gpu) +
          ": MIG is enabled, but there are no instances: `nvidia-smi mig -cgi` creates them");
  }

  /// Reads name, memory, utilization and processes. Any result other than kSuccess means that the
  /// device is gone.
  nvml::Return read_rest(nvml::Device handle, DeviceFacts& device) {
    read_text(library_.name, handle, device.name);
    const nvml::Return answer = read_memory(handle, device);
    if (answer == nvml::kGpuIsLost || answer == nvml::kResetRequired) return answer;
    nvml::Utilization use{};
    if (NvmlLibrary::call(library_.utilization, handle, &use) == nvml::kSuccess)
      device.utilization = static_cast<int>(use.gpu);
    std::map<std::int64_t, std::optional<std::int64_t>> holders;
    for (const auto function : {library_.compute_processes, library_.graphics_processes}) {
      for (const nvml::ProcessInfo& process : processes(function, handle)) {
        auto& bytes = holders[process.pid];
        if (process.used_memory != nvml::kNotAvailable)
          bytes = static_cast<std::int64_t>(process.used_memory);
      }
    }
    for (const auto& [pid, bytes] : holders) device.holders.push_back({pid, bytes});
    return nvml::kSuccess;
  }

  nvml::Return read_memory(nvml::Device handle, DeviceFacts& device) {
    nvml::MemoryV2 memory{nvml::kMemoryV2, 0, 0, 0, 0};
    nvml::Return answer = NvmlLibrary::call(library_.memory_v2, handle, &memory);
    if (answer == nvml::kSuccess) {
      device.reserved = static_cast<std::int64_t>(memory.reserved);
    } else {  // drivers before 510, or not permitted with MIG
      nvml::Memory older{};
      answer = NvmlLibrary::call(library_.memory, handle, &older);
      memory.total = older.total;
      memory.free = older.free;
    }
    if (answer != nvml::kSuccess) return answer;
    device.total = static_cast<std::int64_t>(memory.total);
    device.free = static_cast<std::int64_t>(memory.free);
    return answer;
  }

  static std::vector<nvml::ProcessInfo> processes(int (*function)(nvml::Device, unsigned*,
                                                                  nvml::ProcessInfo*),
                                                  nvml::Device handle) {
    std::vector<nvml::ProcessInfo> found(64);
    for (int attempt = 0; attempt < 3; ++attempt) {  // the list may have grown between calls
      auto count = static_cast<unsigned>(found.size());
      const nvml::Return answer = NvmlLibrary::call(function, handle, &count, found.data());
      if (answer == nvml::kSuccess) {
        found.resize(std::min<std::size_t>(count, found.size()));
        return found;
      }
      if (answer != nvml::kInsufficientSize || count > 100'000) return {};
      found.resize(count + 16);
    }
    return {};
  }

  static nvml::Return read_text(int (*function)(nvml::Device, char*, unsigned), nvml::Device handle,
                                std::string& text) {
    std::array<char, nvml::kTextSize> buffer{};
    const nvml::Return answer = NvmlLibrary::call(function, handle, buffer.data(), nvml::kTextSize);
    buffer.back() = '\0';
    if (answer == nvml::kSuccess) text = buffer.data();
    return answer;
  }

  const NvmlLibrary& library_;
};

}  // namespace

Nvml::Nvml(std::string library, std::filesystem::path driver)
    : name_(std::move(library)), driver_(std::move(driver)) {}

DeviceReading Nvml::read() {
  const BlockedSignals blocked;  // the threads that NVML starts inherit this
  std::error_code ignored;
  DeviceReading reading{.has_driver = std::filesystem::exists(driver_, ignored)};
  if (!library_) {
    auto loaded = NvmlLibrary::load(name_);
    if (!loaded && !reading.has_driver) {
      reading.why_none = "this machine has no NVIDIA driver";
      return reading;
    }
    if (!loaded) {
      reading.why_none = "the NVIDIA driver cannot be queried: " + loaded.errors().front().message;
      reading.help =
          "install the driver's NVML library; a container needs the driver's `utility` capability";
      return reading;
    }
    library_ = *std::move(loaded);
  }
  const NvmlSession session(*library_);
  if (session.begun() != nvml::kSuccess) {
    std::tie(reading.why_none, reading.help) = why_not_begun(*library_, session.begun());
    return reading;
  }
  reading.has_driver = true;
  NvmlReader(*library_).read(reading);
  return reading;
}

}  // namespace runner
