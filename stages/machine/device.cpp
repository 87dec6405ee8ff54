#include "stages/machine/device.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <optional>
#include <span>
#include <string_view>

#include <ATen/Version.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>
#include <torch/cuda.h>
#include <torch/version.h>
#include <nlohmann/json.hpp>

#include "stages/machine/gpu.h"
#include "stages/machine/memory_meter.h"
#include "stages/machine/threads.h"

namespace stages {
namespace {

/// Returns K for "cuda:K", 0 for "cuda"; nullopt for anything else.
std::optional<int> gpu_number(std::string_view text) {
  if (text == "cuda") return 0;
  if (!text.starts_with("cuda:")) return std::nullopt;
  text.remove_prefix(5);
  int number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number < 0 || number > 127)
    return std::nullopt;
  return number;
}

runner::Diagnostic unavailable(std::string_view text, const std::string& why, std::string help) {
  return {runner::ErrorCode::kDeviceUnavailable,
          {},
          "/device/select",
          "device '" + std::string(text) + "' is not available: " + why,
          std::move(help)};
}

}  // namespace

Gpus find_gpus() {
  if (!gpu::is_supported()) return {0, "this worker was built without CUDA support"};
  const int count = static_cast<int>(torch::cuda::device_count());
  if (count > 0) return {count, ""};
  if (!std::filesystem::exists("/proc/driver/nvidia/version"))
    return {0, "this machine has no NVIDIA driver"};
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return {0, visible ? "CUDA_VISIBLE_DEVICES='" + std::string(visible) + "' hides every GPU"
                     : std::string("the NVIDIA driver finds no usable GPU")};
}

std::string gpu_model(c10::Device device) {
  return device.is_cuda() && gpu::is_supported() ? gpu::properties(device).model : "";
}

runner::Result<c10::Device> choose_device(std::string_view text, const Gpus& gpus) {
  if (text == "cpu") return c10::Device(c10::kCPU);
  const auto number = gpu_number(text);
  if (!number)
    return unavailable(text, "it is not the name of a device", "use cpu, cuda or cuda:K");
  if (gpus.count == 0) {
    return unavailable(text, gpus.why_none,
                       "use device=cpu; `retort doctor` shows what this machine has");
  }
  if (*number >= gpus.count) {
    const std::string known = gpus.count == 1
                                  ? "there is only cuda:0"
                                  : "there are cuda:0 to cuda:" + std::to_string(gpus.count - 1);
    return unavailable(text, known, "use one of those, or device=cpu");
  }
  return c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(*number));
}

using Json = nlohmann::ordered_json;

Json versions() {
  Json json = {{"libtorch", TORCH_VERSION}, {"cuda_runtime", nullptr}, {"compiler", __VERSION__}};
  if (gpu::is_supported()) {
    const long cuda = at::detail::getCUDAHooks().versionCUDART();  // 13000 is 13.0
    json["cuda_runtime"] = std::to_string(cuda / 1000) + "." + std::to_string(cuda % 1000 / 10);
  }
  return json;
}

Json devices_and_versions() {
  Json json = versions();
  const Gpus gpus = find_gpus();
  json["devices"] = Json::array();
  json["devices"].push_back({{"name", "cpu"}, {"memory_bytes", MemoryMeter(c10::kCPU).budget()}});
  for (int i = 0; i < gpus.count; ++i) {
    const gpu::Properties card = gpu::properties({c10::kCUDA, static_cast<c10::DeviceIndex>(i)});
    json["devices"].push_back({{"name", "cuda:" + std::to_string(i)},
                               {"model", card.model},
                               {"memory_bytes", card.memory_bytes},
                               {"capability", card.capability}});
  }
  json["gpus_missing_because"] = gpus.why_none;
  json["threads"] = use_threads(std::nullopt);
  json["cpu_capability"] = at::get_cpu_capability();
  return json;
}

namespace {

constexpr int kCudaMemoryAllocation = 2;
constexpr std::string_view kPythonsOutOfMemory = "retort_host: out of memory: ";

// Values of cudaError_t in CUDA 12 and 13: cudaErrorDevicesUnavailable, ECCUncorrectable,
// NvlinkUncorrectable, Contained, IllegalAddress, LaunchTimeout, Assert, HardwareStackError,
// IllegalInstruction, MisalignedAddress, InvalidAddressSpace, InvalidPc, LaunchFailure and Unknown.
constexpr std::array kSticky = {46,  214, 220, 226, 700, 702, 710,
                                714, 715, 716, 717, 718, 719, 999};

bool has_words(const std::exception& error, std::span<const std::string_view> all) {
  const auto* plain = dynamic_cast<const c10::Error*>(&error);
  if (!plain) return false;
  const std::string_view message = plain->what_without_backtrace();
  return std::ranges::any_of(
      all, [&](std::string_view words) { return message.find(words) != message.npos; });
}

}  // namespace

std::optional<std::int64_t> free_device_bytes(c10::Device device) {
  if (!device.is_cuda() || !gpu::is_supported()) return {};
  try {
    c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
    return static_cast<std::int64_t>(gpu::allocator().getMemoryInfo(device.index()).first);
  } catch (const c10::Error&) {
    return {};
  }
}

bool is_out_of_memory(const std::exception& error, c10::Device device,
                      const std::function<std::optional<std::int64_t>(c10::Device)>& free_bytes) {
  if (is_out_of_memory(error)) return true;
  static constexpr std::array<std::string_view, 5> kWords = {
      "CUBLAS_STATUS_INTERNAL_ERROR", "CUBLAS_STATUS_EXECUTION_FAILED",
      "CUBLAS_STATUS_NOT_INITIALIZED", "CUDNN_STATUS_INTERNAL_ERROR",
      "CUDNN_STATUS_EXECUTION_FAILED"};
  if (!has_words(error, kWords)) return false;
  const std::optional<std::int64_t> free = free_bytes(device);
  return free && *free < kNearlyNil;
}

bool is_out_of_memory(const std::exception& error) {
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) ||
      dynamic_cast<const std::bad_alloc*>(&error))
    return true;
  // CUDA ran out of memory outside torch's allocator.
  if (const auto* device = dynamic_cast<const c10::AcceleratorError*>(&error))
    return device->get_error_code() == kCudaMemoryAllocation;
  // A Python function in a backward pass ran out of memory; its exception arrives as a string.
  if (std::string_view(error.what()).find(kPythonsOutOfMemory) != std::string_view::npos)
    return true;
  // The CPU allocator and CUDA's libraries have no exception type of their own. If the driver does
  // not report free memory (MIG, containers, Jetson), LibTorch's query for it fails.
  static constexpr std::array<std::string_view, 5> kWords = {
      "can't allocate memory", "CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED",
      "CUSOLVER_STATUS_ALLOC_FAILED", "NVML_SUCCESS == r"};
  return has_words(error, kWords);
}

bool is_device_lost(const std::exception& error) {
  const auto* device = dynamic_cast<const c10::AcceleratorError*>(&error);
  return device && std::ranges::count(kSticky, device->get_error_code()) > 0;
}

}  // namespace stages
