#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runner/parent/devices/take_device.h"

/// A machine that reads its GPUs from a table, and on which time passes only during sleeps.
struct FakeMachine : runner::DeviceSource {
  runner::DeviceReading now{.driver = "580.82.07", .cuda = 13000, .has_driver = true};
  std::chrono::steady_clock::time_point time{};
  std::vector<std::string> said;
  std::function<void()> on_sleep = [] {};  ///< called after each sleep
  std::optional<int> signal = {};          ///< arrives during a sleep
  runner::CudaVariables variables = {};
  std::string cuda = "13.0";

  runner::DeviceReading read() override { return now; }

  /// Adds a GPU of `total` and `free` GiB.
  runner::DeviceFacts& gpu(int total, int free, const std::string& name = "NVIDIA A100 80GB") {
    const int index = static_cast<int>(now.devices.size());
    const std::string digit(8, static_cast<char>('a' + index));
    now.devices.push_back({.index = index,
                           .uuid = "GPU-" + digit + "-0000",
                           .gpu_uuid = "GPU-" + digit + "-0000",
                           .bus_id = "00000000:0" + std::to_string(index) + ":00.0",
                           .name = name,
                           .capability = 80,
                           .total = gib(total),
                           .free = gib(free),
                           .utilization = 0});
    return now.devices.back();
  }

  runner::DeviceWorld world(const std::filesystem::path& locks) {
    return {.source = *this,
            .variables = variables,
            .lock_folder = locks,
            .cuda = cuda,
            .say = [this](const std::string& line) { said.push_back(line); },
            .now = [this] { return time; },
            .sleep =
                [this](std::chrono::steady_clock::duration span) {
                  time += span;
                  on_sleep();
                  return signal;
                }};
  }

  static std::int64_t gib(int count) { return std::int64_t{count} << 30; }
};

/// A need of `gib` GiB.
inline runner::NeedOf needing(int gib) {
  return [gib](const runner::DeviceFacts&) {
    return runner::Result<runner::DeviceNeed>(
        runner::DeviceNeed{FakeMachine::gib(gib), "the plan of train"});
  };
}
