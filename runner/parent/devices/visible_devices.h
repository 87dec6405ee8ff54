#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runner/shared/error/diagnostic.h"

namespace runner {

/// A process that holds memory of a device.
struct DeviceHolder {
  std::int64_t pid = 0;  ///< as the driver reports it: in a container it may be the host's
  std::optional<std::int64_t> bytes = {};
  bool operator==(const DeviceHolder&) const = default;
};

/// What is known about a device that CUDA can compute on: a GPU or, if the GPU is partitioned
/// (MIG), an instance of it. nullopt means that the driver does not report it, or not to us.
struct DeviceFacts {
  int index = 0;  ///< of the GPU, from 0, in NVML's order: that of PCI buses, as in nvidia-smi
  std::optional<int> instance = {};  ///< the MIG instance, from 0
  std::string uuid = {};             ///< "GPU-…"; for an instance "MIG-…"
  std::string gpu_uuid = {};         ///< "GPU-…" of the whole GPU
  std::string bus_id = {};           ///< "00000000:3B:00.0"
  std::string name = {};             ///< "NVIDIA A100-SXM4-80GB"
  int capability = 0;                ///< compute capability times ten: 80; 0: unknown
  std::optional<std::int64_t> total = {}, free = {},
                              reserved = {};  ///< bytes; reserved: by the driver
  std::optional<int> utilisation = {};  ///< percentage of roughly the last second in which kernels
                                        ///< ran
  std::vector<DeviceHolder> holders = {};  ///< processes that hold its memory, if the driver
                                           ///< reports them
};

/// "GPU 2", "GPU 2, MIG instance 0".
std::string gpu_place(const DeviceFacts& device);
/// "GPU 2 (NVIDIA A100-SXM4-80GB)".
std::string device_text(const DeviceFacts& device);
/// "process 4711 (12.0 GiB), process 4712"; empty: no process is known.
std::string holders_text(const DeviceFacts& device);

/// The devices found on this machine.
struct DeviceReading {
  std::string driver = {};  ///< its version, "580.82.07"; empty: unknown
  int cuda = 0;             ///< the newest CUDA that the driver runs, 13000 for 13.0; 0: unknown
  std::vector<DeviceFacts> devices = {};   ///< by index, then instance
  std::vector<std::string> problems = {};  ///< GPUs that cannot be used, and why: "GPU 3: …"
  std::string why_none = {};  ///< why the driver could not be queried at all; `devices` is then
                              ///< empty
  std::string help = {};      ///< how to fix `why_none`; may be empty
  bool has_driver = false;    ///< this machine has an NVIDIA driver, whether or not it could be
                              ///< queried
};

/// Reports the devices of this machine. May be called repeatedly; each call returns the current
/// state. Never throws.
class DeviceSource {
 public:
  virtual ~DeviceSource() = default;
  virtual DeviceReading read() = 0;
};

/// The variables by which a user, or a cluster's scheduler, sets which devices CUDA sees, and in
/// which order.
struct CudaVariables {
  std::optional<std::string> visible =
      {};  ///< CUDA_VISIBLE_DEVICES; nullopt: not set, which leaves all
  std::optional<std::string> order = {};  ///< CUDA_DEVICE_ORDER
};

/// Reads those of this process.
CudaVariables cuda_variables();

/// The devices of a reading that CUDA would see.
struct VisibleDevices {
  std::vector<DeviceFacts> devices =
      {};  ///< in CUDA's order if that is known, else as in the reading
  /// Whether cuda:K is devices[K]. Unknown if CUDA orders GPUs fastest first and they differ.
  bool in_cuda_order = true;
  std::string remark = {};  ///< which part of CUDA_VISIBLE_DEVICES has no effect, and why; empty:
                            ///< none
};

/// Applies CUDA's own rules (CUDA C Programming Guide, "CUDA Environment Variables"). The list has
/// indices, or UUIDs of GPUs and of MIG instances, which may be abbreviated if they stay unique.
/// The first invalid entry and everything after it is ignored; an empty list leaves none. There is
/// one difference: CUDA sees only the first of several MIG instances, but here all are listed,
/// because a run that is given one sees that one.
///
/// kDeviceUnavailable if the list uses an order that only CUDA knows.
Result<VisibleDevices> visible_devices(const DeviceReading& reading,
                                       const CudaVariables& variables);

}  // namespace runner
