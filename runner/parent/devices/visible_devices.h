#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runner/shared/error/diagnostic.h"

namespace runner {

/// A process that holds memory of a device.
struct DeviceHolder {
  std::int64_t pid = 0;  ///< as the driver counts: in a container it may be the host's
  std::optional<std::int64_t> bytes = {};
  bool operator==(const DeviceHolder&) const = default;
};

/// What is known of one thing that CUDA can compute on: a GPU, or where that is divided (MIG) an
/// instance of it. What the driver does not tell, or not to us, is nullopt.
struct DeviceFacts {
  int index = 0;  ///< of the GPU, from 0, in NVML's order: that of PCI buses, as in nvidia-smi
  std::optional<int> instance = {};  ///< of a divided GPU: which, from 0
  std::string uuid = {};             ///< "GPU-…", of an instance "MIG-…"
  std::string gpu_uuid = {};         ///< "GPU-…" of the whole GPU
  std::string bus_id = {};           ///< "00000000:3B:00.0"
  std::string name = {};             ///< "NVIDIA A100-SXM4-80GB"
  int capability = 0;                ///< compute capability, ten times: 80; 0: unknown
  std::optional<std::int64_t> total = {}, free = {},
                              reserved = {};  ///< bytes; reserved: the driver's own
  std::optional<int> utilisation = {};  ///< per cent of the last second or so in which kernels ran
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
  std::string driver = {};  ///< its version, "580.82.07"; empty: unknown
  int cuda = 0;             ///< the newest CUDA that the driver runs, 13000 for 13.0; 0: unknown
  std::vector<DeviceFacts> devices = {};   ///< by index, then instance
  std::vector<std::string> problems = {};  ///< GPUs that cannot be used, and why: "GPU 3: …"
  std::string why_none = {};  ///< the driver could not be asked at all: why; `devices` is empty
  std::string help = {};      ///< what to do about `why_none`; may be empty
  bool has_driver = false;  ///< this machine has an NVIDIA driver, whether it could be asked or not
};

/// Who knows the devices of this machine. Asked again and again, each time for what is true then.
/// Never throws.
class DeviceSource {
 public:
  virtual ~DeviceSource() = default;
  virtual DeviceReading read() = 0;
};

/// The variables by which a user, or a cluster's scheduler, says which devices CUDA is to see, and
/// how it counts them.
struct CudaVariables {
  std::optional<std::string> visible =
      {};  ///< CUDA_VISIBLE_DEVICES; nullopt: not set, which leaves all
  std::optional<std::string> order = {};  ///< CUDA_DEVICE_ORDER
};

/// Those of this process.
CudaVariables cuda_variables();

/// What CUDA would see of the devices of a reading.
struct VisibleDevices {
  std::vector<DeviceFacts> devices =
      {};  ///< in CUDA's order where that is known, else as in the reading
  /// Whether cuda:K is devices[K]. Not known where CUDA counts from the fastest GPU on and they
  /// differ.
  bool in_cuda_order = true;
  std::string remark = {};  ///< what of CUDA_VISIBLE_DEVICES holds nothing, and why; empty: nothing
};

/// CUDA's own rules (CUDA C Programming Guide, "CUDA Environment Variables"): indices, or UUIDs of
/// GPUs and of MIG instances, which may be cut off as long as they stay unique; what follows the
/// first entry that means nothing holds nothing; an empty list leaves none. One thing differs: of
/// several MIG instances CUDA sees the first alone, and here all are listed, since a run that is
/// given one sees that.
///
/// kDeviceUnavailable where the list counts in an order that only CUDA knows.
Result<VisibleDevices> visible_devices(const DeviceReading& reading,
                                       const CudaVariables& variables);

}  // namespace runner
