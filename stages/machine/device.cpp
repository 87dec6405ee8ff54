#include "stages/machine/device.h"

#include <torch/cuda.h>

#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <optional>

namespace stages {
namespace {

/// The K of "cuda:K", 0 for "cuda"; nullopt for anything else.
std::optional<int> gpu_number(std::string_view text) {
  if (text == "cuda") return 0;
  if (!text.starts_with("cuda:")) return std::nullopt;
  text.remove_prefix(5);
  int number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number < 0 || number > 127) return std::nullopt;
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
#ifdef RETORT_LIBTORCH_CUDA
  const int count = static_cast<int>(torch::cuda::device_count());
  if (count > 0) return {count, ""};
  if (!std::filesystem::exists("/proc/driver/nvidia/version")) return {0, "this machine has no NVIDIA driver"};
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return {0, visible ? "CUDA_VISIBLE_DEVICES='" + std::string(visible) + "' leaves no GPU"
                     : std::string("the NVIDIA driver finds no GPU it can use")};
#else
  return {0, "this worker was built without LibTorch's CUDA part"};
#endif
}

runner::Result<c10::Device> choose_device(std::string_view text, const Gpus& gpus) {
  if (text == "cpu") return c10::Device(c10::kCPU);
  const auto number = gpu_number(text);
  if (!number) return unavailable(text, "this worker does not know it", "use cpu, cuda or cuda:K");
  if (gpus.count == 0) {
    return unavailable(text, gpus.why_none, "use device=cpu; `retort doctor` says what this machine has");
  }
  if (*number >= gpus.count) {
    const std::string known =
        gpus.count == 1 ? "there is only cuda:0" : "there are cuda:0 to cuda:" + std::to_string(gpus.count - 1);
    return unavailable(text, known, "use one of those, or device=cpu");
  }
  return c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(*number));
}

}  // namespace stages
