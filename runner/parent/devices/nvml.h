#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "runner/parent/devices/device_facts.h"
#include "runner/parent/devices/nvml_library.h"

namespace runner {

/// The devices of this machine as NVIDIA's driver tells of them by NVML, which needs no CUDA context and takes no
/// memory of a GPU. What the driver does not tell, for want of a permission or because it is too old, is left out; a
/// GPU that it cannot tell of at all is a problem of the reading, and the others stand.
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
