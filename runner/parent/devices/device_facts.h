#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace runner {

/// A process that holds memory of a device.
struct DeviceHolder {
  std::int64_t pid = 0;  ///< as the driver counts: in a container it may be the host's
  std::optional<std::int64_t> bytes = {};
  bool operator==(const DeviceHolder&) const = default;
};

/// What is known of one thing that CUDA can compute on: a GPU, or where that is divided (MIG) an instance of it. What
/// the driver does not tell, or not to us, is nullopt.
struct DeviceFacts {
  int index = 0;                     ///< of the GPU, from 0, in NVML's order: that of PCI buses, as in nvidia-smi
  std::optional<int> instance = {};  ///< of a divided GPU: which, from 0
  std::string uuid = {};             ///< "GPU-…", of an instance "MIG-…"
  std::string gpu_uuid = {};         ///< "GPU-…" of the whole GPU
  std::string bus_id = {};           ///< "00000000:3B:00.0"
  std::string name = {};             ///< "NVIDIA A100-SXM4-80GB"
  int capability = 0;                ///< compute capability, ten times: 80; 0: unknown
  std::optional<std::int64_t> total = {}, free = {}, reserved = {};  ///< bytes; reserved: the driver's own
  std::optional<int> utilisation = {};     ///< per cent of the last second or so in which kernels ran
  std::vector<DeviceHolder> holders = {};  ///< who holds memory of it, as far as the driver tells
};

/// "GPU 2", "GPU 2, MIG instance 0".
std::string gpu_place(const DeviceFacts& device);
/// "GPU 2 (NVIDIA A100-SXM4-80GB)".
std::string device_text(const DeviceFacts& device);
/// "process 4711 (12.0 GiB), process 4712"; empty: nobody is known.
std::string holders_text(const DeviceFacts& device);

/// What a look at the machine has found.
struct DeviceReading {
  std::string driver = {};                 ///< its version, "580.82.07"; empty: unknown
  int cuda = 0;                            ///< the newest CUDA that the driver runs, 13000 for 13.0; 0: unknown
  std::vector<DeviceFacts> devices = {};   ///< by index, then instance
  std::vector<std::string> problems = {};  ///< GPUs that cannot be used, and why: "GPU 3: …"
  std::string why_none = {};               ///< the driver could not be asked at all: why; `devices` is empty
  std::string help = {};                   ///< what to do about `why_none`; may be empty
  bool has_driver = false;                 ///< this machine has an NVIDIA driver, whether it could be asked or not
};

/// Who knows the devices of this machine. Asked again and again, each time for what is true then. Never throws.
class DeviceSource {
 public:
  virtual ~DeviceSource() = default;
  virtual DeviceReading read() = 0;
};

}  // namespace runner
