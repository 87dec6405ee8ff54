#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "runner/parent/devices/visible_devices.h"
#include "runner/shared/error/diagnostic.h"

namespace runner {

/// The part of NVML's interface that Retort uses, from its documentation
/// (docs.nvidia.com/deploy/nvml-api). The library comes with the driver, so its ABI is stable, and
/// building Retort does not require CUDA Toolkit headers.
namespace nvml {

using Device = struct DeviceHandle*;

enum Return : int {
  kSuccess = 0,
  kNotSupported = 3,
  kNoPermission = 4,
  kNotFound = 6,
  kInsufficientSize = 7,
  kDriverNotLoaded = 9,
  kFunctionNotFound = 13,
  kGpuIsLost = 15,
  kResetRequired = 16,
  kVersionMismatch = 18,
};

struct Memory {
  unsigned long long total, free, used;
};
struct MemoryV2 {
  unsigned int version;
  unsigned long long total, reserved, free, used;
};
inline constexpr unsigned int kMemoryV2 = sizeof(MemoryV2) | (2U << 24);

struct Utilization {
  unsigned int gpu, memory;
};
struct PciInfo {
  char legacy_bus_id[16];
  unsigned int domain, bus, device, device_id, subsystem_id;
  char bus_id[32];
};
struct ProcessInfo {
  unsigned int pid;
  unsigned long long used_memory;
  unsigned int gpu_instance, compute_instance;
};
inline constexpr unsigned long long kNotAvailable = ~0ULL;
inline constexpr unsigned int kTextSize = 96;

}  // namespace nvml

/// libnvidia-ml.so.1, loaded at run time, so Retort also starts without a driver. Calling a
/// function that an older library lacks returns kFunctionNotFound.
class NvmlLibrary {
 public:
  /// Loads the library; kDeviceUnavailable with the loader's message if that fails.
  static Result<NvmlLibrary> load(const std::string& name);

  // Function pointers default to null; call() returns kFunctionNotFound for those.
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  const char* (*error_text)(int) = nullptr;
  int (*driver_version)(char*, unsigned) = nullptr;
  int (*cuda_version)(int*) = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*by_index)(unsigned, nvml::Device*) = nullptr;
  int (*uuid)(nvml::Device, char*, unsigned) = nullptr;
  int (*name)(nvml::Device, char*, unsigned) = nullptr;
  int (*pci)(nvml::Device, nvml::PciInfo*) = nullptr;
  int (*memory)(nvml::Device, nvml::Memory*) = nullptr;
  int (*memory_v2)(nvml::Device, nvml::MemoryV2*) = nullptr;
  int (*utilization)(nvml::Device, nvml::Utilization*) = nullptr;
  int (*compute_processes)(nvml::Device, unsigned*, nvml::ProcessInfo*) = nullptr;
  int (*graphics_processes)(nvml::Device, unsigned*, nvml::ProcessInfo*) = nullptr;
  int (*capability)(nvml::Device, int*, int*) = nullptr;
  int (*mig_mode)(nvml::Device, unsigned*, unsigned*) = nullptr;
  int (*mig_count)(nvml::Device, unsigned*) = nullptr;
  int (*mig_by_index)(nvml::Device, unsigned, nvml::Device*) = nullptr;

  template <typename... Parameters, typename... Arguments>
  static nvml::Return call(int (*function)(Parameters...), Arguments... arguments) {
    return function ? static_cast<nvml::Return>(function(arguments...)) : nvml::kFunctionNotFound;
  }
  /// Returns NVML's message for a return code: "Insufficient Permissions".
  std::string words(nvml::Return answer) const;

 private:
  std::shared_ptr<void> handle_;
};

/// Reads this machine's devices from NVIDIA's driver through NVML, which needs no CUDA context and
/// no GPU memory. Leaves out values that the driver does not report, because it is too old or this
/// user lacks permission. A GPU that cannot be read at all is listed in DeviceReading::problems;
/// this does not affect the other GPUs.
class Nvml : public DeviceSource {
 public:
  /// `library` is looked up the way dlopen(3) does it. The file `driver` exists only if the machine
  /// has a driver.
  explicit Nvml(std::string library = "libnvidia-ml.so.1",
                std::filesystem::path driver = "/proc/driver/nvidia/version");
  DeviceReading read() override;

 private:
  const std::string name_;
  const std::filesystem::path driver_;
  std::optional<NvmlLibrary> library_;  // nullopt: not loaded yet
};

}  // namespace runner
