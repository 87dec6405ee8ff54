#include "stages/plan/gpu_backend.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <mutex>
#include <string_view>
#include <utility>

#include <torch/types.h>

#include "stages/plan/allocator_replay.h"
#include "stages/plan/recorder.h"

namespace stages {
namespace {

constexpr std::int64_t kMebibyte = 1 << 20;

/// The forward and the backward pass run on separate threads, each with its own cuBLAS handle. The
/// size corresponds to CUBLAS_WORKSPACE_CONFIG=:4096:8, which a deterministic run sets, and which
/// is the default on Hopper; without the variable, other GPUs use 8 MiB.
constexpr std::array kWorkspaces = {std::pair("cuBLAS's workspace, forward", 32 * kMebibyte),
                                    std::pair("cuBLAS's workspace, backward", 32 * kMebibyte),
                                    std::pair("cuBLASLt's workspace", 1 * kMebibyte)};

}  // namespace

std::int64_t reserved_on_gpu(const TraceHistory& history, const AllocatorSettings& settings) {
  AllocatorReplay replay(rules_of(settings));
  for (std::size_t i = 0; i < history.events().size(); ++i) {
    const TraceEvent& event = history.events()[i];
    if (event.is_birth && history.storage(i).is_pool) replay.empty_cache();
    if (event.is_birth) replay.allocate(event.storage, history.storage(i).bytes);
    else replay.free(event.storage);
  }
  return replay.peak_reserved();
}

std::int64_t pool_of_graph(std::size_t first_event, const std::vector<std::int64_t>& inputs) {
  const MemoryTrace::Recorder* const recorder = living_recorder();
  if (!recorder) return 0;
  AllocatorReplay pool(AllocatorRules{});
  const std::lock_guard lock(recorder->mutex);
  std::size_t name = recorder->storages.size();
  const auto allocate = [&](std::int64_t bytes) { pool.allocate(name++, bytes); };
  for (const std::int64_t bytes : inputs) allocate(bytes);
  // The libraries have one workspace per stream, and the graph was recorded on its own stream.
  for (const auto& [what, bytes] : kWorkspaces) allocate(bytes);
  for (std::size_t i = first_event; i < recorder->events.size(); ++i) {
    const TraceEvent& event = recorder->events[i];
    if (event.is_birth) pool.allocate(event.storage, recorder->storages[event.storage].bytes);
    else pool.free(event.storage);
  }
  return pool.peak_reserved();
}

std::string operation_on_gpu(const std::string& operation) {
  if (operation.find("ForCpu") == operation.npos && !operation.ends_with("_for_cpu"))
    return operation;
  return operation.ends_with("Backward0") ? "ScaledDotProductAttentionBackward0"
                                          : "aten::scaled_dot_product_attention";
}

double seconds_on_gpu(const StepWork& work) {
  constexpr double kFlops = 15e12, kBytes = 400e9;  // per second
  constexpr double kLaunch = 6e-6;                  // seconds for each operation
  constexpr double kBus = 12e9;  // bytes per second between pinned memory and a GPU over PCIe 3.0
                                 // with 16 lanes
  return work.flops / kFlops + work.traffic / kBytes + work.operations * kLaunch +
         work.moved / kBus;
}

GpuContext gpu_context(std::string model) {
  std::ranges::transform(model, model.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  constexpr std::string_view kHopperAndBlackwell[] = {"h100",  "h200",  "h800",      "h20",
                                                      "gh200", "b100",  "b200",      "b300",
                                                      "gb2",   "gb300", "blackwell", "rtx 50"};
  const auto is_named = [&](std::string_view word) { return model.find(word) != model.npos; };
  if (std::ranges::any_of(kHopperAndBlackwell, is_named))
    return {.at_start = 500 * kMebibyte,
            .in_all = 720 * kMebibyte,
            .source =
                "as measured on an H100 with driver 580: 532 MiB before the first kernel, "
                "695 to 720 in training runs"};
  return {.at_start = 250 * kMebibyte,
          .in_all = 400 * kMebibyte,
          .source =
              "kernels are loaded lazily; https://github.com/pytorch/pytorch/issues/109888 "
              "reports around 400 MB, older reports 290 to 670"};
}

std::vector<at::Tensor> library_workspaces(MemoryTrace& trace) {
  if (trace.backend().device != at::kCUDA) return {};
  std::vector<at::Tensor> workspaces;
  for (const auto& [name, bytes] : kWorkspaces) {
    workspaces.push_back(at::empty({bytes}, at::TensorOptions(at::kByte).device(at::kMeta)));
    trace.own(workspaces.back(), Owner::kBuffer, name);
  }
  return workspaces;
}

}  // namespace stages
