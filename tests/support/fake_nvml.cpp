// NVML read from a table, for tests of its callers: a library instead of libnvidia-ml.so.1. The
// variable FAKE_NVML_TABLE names a JSON file, which is read each time the library is initialized:
//
//   {"driver": "580.82.07", "cuda": 13000, "init": 0, "devices": [{"uuid": "GPU-…", "name": "…",
//   "bus_id": "…",
//    "capability": [8, 0], "total": 81920, "free": 80000, "reserved": 500, "utilization": 3,
//    "processes": [[4711, 900]], "error": 0, "mig": [{"uuid": "MIG-…", …}]}]}
//
// Sizes are in MiB. Values that a device lacks are not supported; "error" is the answer to all
// queries about it, and "init" the result of the initialization.
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <list>
#include <string>

#include <nlohmann/json.hpp>

#include "runner/parent/devices/nvml.h"

namespace {

using nlohmann::json;
using namespace runner::nvml;

constexpr int kInvalidArgument = 2, kUnknown = 999;

json table;
std::list<json> handles;  // callers get their addresses as device handles

const json& of(Device device) { return *reinterpret_cast<const json*>(device); }

Device handle(const json& entry) { return reinterpret_cast<Device>(&handles.emplace_back(entry)); }

int answer(Device device, const char* field) {
  if (const int error = of(device).value("error", 0)) return error;
  const bool is_memory =
      std::string_view(field) == "total" || std::string_view(field) == "reserved";
  if (const int error = is_memory ? of(device).value("memory_error", 0) : 0) return error;
  return of(device).contains(field) ? kSuccess : kNotSupported;
}

/// NVIDIA's library may start threads when it is initialized. They must not receive the signals
/// that the program waits for.
bool blocks_signals() {
  sigset_t blocked;
  pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  return sigismember(&blocked, SIGCHLD) && sigismember(&blocked, SIGTERM);
}

int text(const std::string& value, char* to, unsigned size) {
  if (value.size() >= size) return kInsufficientSize;
  std::memcpy(to, value.c_str(), value.size() + 1);
  return kSuccess;
}

unsigned long long mib(Device device, const char* field) {
  return of(device).value(field, 0ULL) << 20;
}

int processes(Device device, const char* field, unsigned* count, ProcessInfo* to) {
  if (const int refused = answer(device, field)) return refused;
  const json& listed = of(device)[field];
  const unsigned room = *count;
  *count = static_cast<unsigned>(listed.size());
  if (listed.size() > room) return kInsufficientSize;
  for (const json& process : listed) {
    *to++ = {process[0],
             process[1].is_null() ? kNotAvailable : process[1].get<unsigned long long>() << 20, 0,
             0};
  }
  return kSuccess;
}

}  // namespace

extern "C" {

int nvmlInit_v2() {
  if (!blocks_signals()) return kUnknown;
  const char* const file = std::getenv("FAKE_NVML_TABLE");
  std::ifstream in(file ? file : "");
  table = json::parse(in, nullptr, /*allow_exceptions=*/false);
  handles.clear();
  return table.is_object() ? table.value("init", 0) : kUnknown;
}
int nvmlShutdown() { return kSuccess; }
const char* nvmlErrorString(int error) {
  return error == kNoPermission ? "Insufficient Permissions"
         : error == kUnknown    ? "Unknown Error"
                                : "Some Error";
}
int nvmlSystemGetDriverVersion(char* to, unsigned size) {
  return text(table.value("driver", ""), to, size);
}
int nvmlSystemGetCudaDriverVersion_v2(int* version) {
  *version = table.value("cuda", 0);
  return kSuccess;
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = static_cast<unsigned>(table["devices"].size());
  return kSuccess;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device* device) {
  if (index >= table["devices"].size()) return kInvalidArgument;
  *device = handle(table["devices"][index]);
  return of(*device).value("handle_error", 0);
}
int nvmlDeviceGetUUID(Device device, char* to, unsigned size) {
  const int refused = answer(device, "uuid");
  return refused ? refused : text(of(device)["uuid"], to, size);
}
int nvmlDeviceGetName(Device device, char* to, unsigned size) {
  const int refused = answer(device, "name");
  return refused ? refused : text(of(device)["name"], to, size);
}
int nvmlDeviceGetPciInfo_v3(Device device, PciInfo* info) {
  const int refused = answer(device, "bus_id");
  return refused ? refused : text(of(device)["bus_id"], info->bus_id, sizeof info->bus_id);
}
int nvmlDeviceGetMemoryInfo(Device device, Memory* memory) {
  const int refused = answer(device, "total");
  if (!refused) *memory = {mib(device, "total"), mib(device, "free"), 0};
  return refused;
}
int nvmlDeviceGetMemoryInfo_v2(Device device, MemoryV2* memory) {
  if (memory->version != kMemoryV2) return kInvalidArgument;
  const int refused = answer(device, "reserved");
  if (!refused)
    *memory = {kMemoryV2, mib(device, "total"), mib(device, "reserved"), mib(device, "free"), 0};
  return refused;
}
int nvmlDeviceGetUtilizationRates(Device device, Utilization* use) {
  const int refused = answer(device, "utilization");
  if (!refused) use->gpu = of(device)["utilization"];
  return refused;
}
int nvmlDeviceGetComputeRunningProcesses_v3(Device device, unsigned* count, ProcessInfo* to) {
  return processes(device, "processes", count, to);
}
int nvmlDeviceGetGraphicsRunningProcesses_v3(Device device, unsigned* count, ProcessInfo* to) {
  return processes(device, "graphics", count, to);
}
int nvmlDeviceGetCudaComputeCapability(Device device, int* major, int* minor) {
  const int refused = answer(device, "capability");
  if (refused) return refused;
  *major = of(device)["capability"][0];
  *minor = of(device)["capability"][1];
  return kSuccess;
}
int nvmlDeviceGetMigMode(Device device, unsigned* current, unsigned* pending) {
  *current = *pending = 1;
  return answer(device, "mig");
}
int nvmlDeviceGetMaxMigDeviceCount(Device device, unsigned* count) {
  *count = 7;
  return answer(device, "mig");
}
int nvmlDeviceGetMigDeviceHandleByIndex(Device device, unsigned index, Device* instance) {
  if (index >= of(device)["mig"].size() || of(device)["mig"][index].is_null()) return kNotFound;
  *instance = handle(of(device)["mig"][index]);
  return kSuccess;
}

}  // extern "C"
