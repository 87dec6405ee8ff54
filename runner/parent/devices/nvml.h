#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "runner/parent/devices/visible_devices.h"
#include "runner/shared/error/diagnostic.h"

namespace runner {

/// What of NVML's interface is used, by its documentation (docs.nvidia.com/deploy/nvml-api): the
/// library comes with the driver, so its shape is fixed, and no header of the CUDA Toolkit is
/// needed to build.
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

/// libnvidia-ml.so.1, loaded while this program runs: it starts without, where there is no driver.
/// A function that the library lacks, because it is older, answers kFunctionNotFound.
class NvmlLibrary {
 public:
  /// kDeviceUnavailable where it cannot be loaded, with the loader's words.
  static Result<NvmlLibrary> load(const std::string& name);

  // Pointers have no default but null; call() says kFunctionNotFound for those.
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
  int (*utilisation)(nvml::Device, nvml::Utilization*) = nullptr;
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
  /// What an answer means, in NVML's words: "Insufficient Permissions".
  std::string words(nvml::Return answer) const;

 private:
  std::shared_ptr<void> handle_;
};

/// The devices of this machine as NVIDIA's driver tells of them by NVML, which needs no CUDA
/// context and takes no memory of a GPU. What the driver does not tell, for want of a permission or
/// because it is too old, is left out; a GPU that it cannot tell of at all is a problem of the
/// reading, and the others stand.
class Nvml : public DeviceSource {
 public:
  /// `library` is looked for as dlopen(3) does; `driver` is there where the machine has a driver.
  explicit Nvml(std::string library = "libnvidia-ml.so.1",
                std::filesystem::path driver = "/proc/driver/nvidia/version");
  DeviceReading read() override;

 private:
  const std::string name_;
  const std::filesystem::path driver_;
  std::optional<NvmlLibrary> library_;  // nullopt: it could not be loaded so far
};

}  // namespace runner
