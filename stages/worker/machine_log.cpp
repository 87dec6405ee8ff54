#include "stages/worker/machine_log.h"

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <span>
#include <sstream>
#include <string>

#include <torch/types.h>

#include <ATen/Version.h>

#include <nlohmann/json.hpp>

#include "runner/shared/text/units.h"
#include "stages/machine/allocator_settings.h"
#include "stages/machine/counting_allocator.h"
#include "stages/machine/device.h"
#include "stages/machine/memory_meter.h"
#include "stages/machine/threads.h"

namespace stages {
namespace {

/// Environment variables that can change the kernels or the number of threads.
constexpr std::array kKernelVariables = {"ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA",
                                         "DNNL_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS"};
constexpr std::array kThreadVariables = {"MKL_NUM_THREADS", "OMP_NUM_THREADS", "OMP_WAIT_POLICY",
                                         "GOMP_SPINCOUNT"};

/// Returns ", NAME=value" for each variable that is set.
std::string set_among(std::span<const char* const> names) {
  std::string text;
  for (const char* const name : names) {
    if (const char* const value = std::getenv(name)) text += std::string(", ") + name + "=" + value;
  }
  return text;
}

std::string device_text(c10::Device device) {
  return "device: " + device.str() + ", " + runner::bytes_text(MemoryMeter(device).available()) +
         " of memory, " + runner::bytes_text(MemoryMeter(device).budget()) + " of it for tensors";
}

std::string threads_text(int threads) {
  const std::vector<int> cpus = allowed_cpus();
  return "threads: " + std::to_string(threads) + " for tensor operations; " +
         std::to_string(cpus.size()) + " CPUs may be used, on " +
         std::to_string(physical_cores(cpus)) + " cores" + set_among(kThreadVariables);
}

std::string kernels_text() {
  std::string text = "kernels: " + at::get_cpu_capability();
  text += at::hasMKLDNN() && at::globalContext().userEnabledMkldnn() ? ", oneDNN" : ", no oneDNN";
  text += at::hasMKL() ? ", MKL" : ", no MKL";
  return text + set_among(kKernelVariables);
}

std::string allocator_text(c10::Device device) {
  const auto* const counter = CountingAllocator::innermost();
  std::string text = "allocator: ";
  text += counter && counter->pool() ? "a pool, which keeps freed memory until the cache is emptied"
                                     : "malloc, which may keep freed memory";
  if (device.is_cuda()) text += "; of the GPU: " + to_text(allocator_settings_in_force());
  for (const auto& [name, value] : allocator_variables()) text += ", " + name + "=" + value;
  return text;
}

void write_debug(runner::Log& log, const std::string& text) {
  log.write({.level = runner::LogLevel::kDebug, .text = text});
}

}  // namespace

void log_worker(runner::Log& log) {
  if (!log.takes(runner::LogLevel::kDebug)) return;
  write_debug(log, "worker: process " + std::to_string(getpid()) + ", " + versions().dump());
  write_debug(log, kernels_text());
  std::istringstream built(log.takes(runner::LogLevel::kTrace) ? at::show_config() : "");
  for (std::string line; std::getline(built, line);)
    log.write({.level = runner::LogLevel::kTrace, .text = line});
}

void log_machine(runner::Log& log, c10::Device device, int threads) {
  if (!log.takes(runner::LogLevel::kDebug)) return;
  log_worker(log);
  write_debug(log, device_text(device));
  write_debug(log, threads_text(threads));
  write_debug(log, allocator_text(device));
}

}  // namespace stages
