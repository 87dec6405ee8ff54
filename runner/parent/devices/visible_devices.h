#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runner/shared/error/diagnostic.h"

namespace runner {

/// A process that uses memory on a device.
struct DeviceHolder {
  std::int64_t pid = 0;  ///< as reported by the driver; in a container, it may be the host's
  std::optional<std::int64_t> bytes = {};
  bool operator==(const DeviceHolder&) const = default;
};

/// The properties of a device that CUDA can compute on: a GPU or, if the GPU is partitioned (MIG),
/// one of its instances. A value is nullopt if the driver does not report it, or does not report it
/// to this user.
struct DeviceFacts {
  int index = 0;  ///< GPU number from 0 in PCI bus order, as in NVML and nvidia-smi
  std::optional<int> instance = {};  ///< the MIG instance, from 0
  std::string uuid = {};             ///< "GPU-…"; for an instance "MIG-…"
  std::string gpu_uuid = {};         ///< "GPU-…" of the whole GPU
  std::string bus_id = {};           ///< "00000000:3B:00.0"
  std::string name = {};             ///< "NVIDIA A100-SXM4-80GB"
  int capability = 0;                ///< compute capability times ten: 80; 0: unknown
  std::optional<std::int64_t> total = {}, free = {},
                              reserved = {};  ///< bytes; reserved: by the driver
  /// Percentage of time during which kernels ran, over roughly the last second.
  std::optional<int> utilization = {};
  /// Processes that use its memory, if the driver reports them.
  std::vector<DeviceHolder> holders = {};
};

/// Returns "GPU 2" or "GPU 2, MIG instance 0".
std::string gpu_place(const DeviceFacts& device);
/// Returns "GPU 2 (NVIDIA A100-SXM4-80GB)".
std::string device_text(const DeviceFacts& device);
/// Returns "process 4711 (12.0 GiB), process 4712"; empty if no process is known.
std::string holders_text(const DeviceFacts& device);

/// The devices found on this machine.
struct DeviceReading {
  std::string driver = {};  ///< driver version, "580.82.07"; empty: unknown
  int cuda = 0;  ///< newest CUDA version supported by the driver, 13000 for 13.0; 0: unknown
  std::vector<DeviceFacts> devices = {};   ///< sorted by index, then by instance
  std::vector<std::string> problems = {};  ///< GPUs that cannot be used, and why: "GPU 3: …"
  /// Why the driver could not be queried at all; `devices` is then empty.
  std::string why_none = {};
  std::string help = {};  ///< how to fix `why_none`; may be empty
  /// True if this machine has an NVIDIA driver, even if it could not be queried.
  bool has_driver = false;
};

/// Reports the devices of this machine. read() may be called repeatedly, returns the current state
/// each time, and never throws.
class DeviceSource {
 public:
  virtual ~DeviceSource() = default;
  virtual DeviceReading read() = 0;
};

/// The variables with which a user or a cluster scheduler selects and orders the devices that CUDA
/// sees.
struct CudaVariables {
  /// CUDA_VISIBLE_DEVICES; nullopt: not set, so all devices are visible.
  std::optional<std::string> visible = {};
  std::optional<std::string> order = {};  ///< CUDA_DEVICE_ORDER
};

/// Reads the variables of this process.
CudaVariables cuda_variables();

/// The devices in a reading that CUDA would see.
struct VisibleDevices {
  /// The visible devices, in CUDA's order if that is known, otherwise as in the reading.
  std::vector<DeviceFacts> devices = {};
  /// True if cuda:K is devices[K]. False if that is unknown, because CUDA puts the fastest GPU
  /// first and the GPUs differ.
  bool in_cuda_order = true;
  /// Which part of CUDA_VISIBLE_DEVICES has no effect, and why; empty if none.
  std::string remark = {};
};

/// Applies CUDA's own rules (CUDA C Programming Guide, "CUDA Environment Variables"). The list
/// contains indices, or UUIDs of GPUs and MIG instances, which may be abbreviated as long as they
/// are unique. The first invalid entry and everything after it are ignored; an empty list leaves no
/// devices. There is one difference: CUDA sees only the first of several MIG instances, but here
/// all are listed, because a run that is assigned an instance sees that one.
///
/// kDeviceUnavailable if the list uses an order that only CUDA knows.
Result<VisibleDevices> visible_devices(const DeviceReading& reading,
                                       const CudaVariables& variables);

}  // namespace runner
