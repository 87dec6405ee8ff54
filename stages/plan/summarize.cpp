#include "stages/plan/summarize.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <c10/core/ScalarType.h>
#include <torch/version.h>

#include "stages/machine/block_pool.h"
#include "stages/plan/cpu_backend.h"
#include "stages/plan/gpu_backend.h"
#include "stages/plan/trace_history.h"

namespace stages {
namespace {

constexpr std::size_t kLargest = 10;
constexpr std::size_t kPoints = 512;

/// Returns torch's Python name for a type, such as "float32".
std::string type_name(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return "float32";
    case at::kDouble:
      return "float64";
    case at::kHalf:
      return "float16";
    case at::kBFloat16:
      return "bfloat16";
    case at::kLong:
      return "int64";
    case at::kInt:
      return "int32";
    case at::kByte:
      return "uint8";
    case at::kBool:
      return "bool";
    default:
      return c10::toString(type);
  }
}

std::vector<runner::NamedBytes> owners(const std::vector<const TracedStorage*>& alive) {
  std::map<Owner, std::int64_t> bytes;
  for (const TracedStorage* storage : alive) bytes[storage->owner] += storage->bytes;
  std::vector<runner::NamedBytes> result;
  for (const auto& [owner, sum] : bytes)
    result.push_back({.name = std::string(name(owner)), .bytes = sum});
  return result;
}

/// Returns the name of a traced operation on `device`.
std::string operation_on(at::DeviceType device, const std::string& operation) {
  return device == at::kCPU ? operation : operation_on_gpu(operation);
}

std::vector<runner::AliveTensor> largest(std::vector<const TracedStorage*> alive,
                                         at::DeviceType device) {
  std::ranges::stable_sort(alive, [](const auto* a, const auto* b) { return a->bytes > b->bytes; });
  if (alive.size() > kLargest) alive.resize(kLargest);
  std::vector<runner::AliveTensor> result;
  for (const TracedStorage* storage : alive) {
    result.push_back({.owner = std::string(name(storage->owner)),
                      .name = storage->name,
                      .operation = operation_on(device, storage->operation),
                      .shape = storage->shape,
                      .dtype = storage->shape.empty() && storage->dtype == at::kByte
                                   ? ""
                                   : type_name(storage->dtype),
                      .bytes = storage->bytes});
  }
  return result;
}

/// Computes the curve and marks where phases begin. Each point is the maximum over the events that
/// it covers.
void draw(const TraceHistory& history, runner::MemoryPlan& plan) {
  const std::vector<std::int64_t>& live = history.live();
  const std::size_t points = std::min(kPoints, live.size());
  plan.curve.assign(points, 0);
  StepPhase before = StepPhase::kIdle;
  for (std::size_t i = 0; i < live.size(); ++i) {
    const std::size_t point = i * points / live.size();
    plan.curve[point] = std::max(plan.curve[point], live[i]);
    const StepPhase phase = history.events()[history.first() + i].phase;
    if (phase == before) continue;
    before = phase;
    if (phase == StepPhase::kIdle) continue;
    if (!plan.phases.empty() && plan.phases.back().point == point) plan.phases.pop_back();
    plan.phases.push_back({.phase = std::string(name(phase)), .point = point});
  }
}

/// The margin as a fraction of the planned bytes: without and with half-precision types.
constexpr double kShare = 0.005, kShareOfHalves = 0.01;
/// Added to the margin: on a CPU, the largest small block, since small tensors may be placed
/// differently from the plan; on a GPU, two of the steps by which the allocator's segments grow.
constexpr std::int64_t kMisplaced = BlockPool::kSmall, kGpuPieces = 2 * (20 << 20);

/// Returns the safety margin: gaps depend on where tensors are placed, and kernels that use less
/// memory than their bound may leave other gaps.
runner::NamedBytes margin_of(std::int64_t planned, const std::vector<TracedStorage>& storages,
                             bool is_gpu) {
  const bool has_halves = std::ranges::any_of(
      storages, [](const auto& one) { return at::isReducedFloatingType(one.dtype); });
  const auto share = static_cast<std::int64_t>((has_halves ? kShareOfHalves : kShare) *
                                               static_cast<double>(planned));
  return {.name = std::string(kMarginTerm),
          .bytes = share + (is_gpu ? kGpuPieces : kMisplaced),
          .note = "for gaps between tensors that may be larger than planned"};
}

/// Returns the term for memory that kernels may allocate. `more` is the amount that it adds to the
/// peak of live bytes.
runner::NamedBytes kernel_scratch(std::int64_t more, const Backend& backend) {
  const std::string threads =
      std::to_string(backend.threads) + (backend.threads == 1 ? " thread" : " threads");
  return {.name = std::string(kKernelScratchTerm),
          .bytes = std::max<std::int64_t>(more, 0),
          .note = backend.device == at::kCUDA
                      ? "upper bound on the memory of kernels, by tensor shapes"
                      : "upper bound on the memory of kernels on any processor, with " + threads};
}

}  // namespace

runner::MemoryPlan summarize(const MemoryTrace& trace, std::size_t first_event,
                             const Backend& backend, const AllocatorSettings& settings) {
  return summarize({trace.storages(), trace.events()}, trace.flops(), first_event, backend,
                   settings);
}

runner::MemoryPlan summarize(const RecordedWork& work, double flops, std::size_t first_event,
                             const Backend& backend, const AllocatorSettings& settings) {
  const TraceHistory history(work, first_event, /*has_scratch=*/false);
  const std::vector<const TracedStorage*> alive = history.alive_at_peak();
  runner::MemoryPlan plan;
  plan.threads = backend.device == at::kCPU ? backend.threads : 0;
  plan.live = history.peak_bytes();
  if (const auto peak = history.peak_event()) {
    plan.peak_phase = name(history.events()[*peak].phase);
    plan.peak_operation = operation_on(backend.device, history.storage(*peak).operation);
  }
  plan.owners = owners(alive);
  plan.largest = largest(alive, backend.device);
  plan.flops = history.flops(flops);
  draw(history, plan);

  plan.terms_version = backend_terms_version();
  const bool is_gpu = backend.device == at::kCUDA;
  const auto reserved = [&](const TraceHistory& events) {
    return is_gpu ? reserved_on_gpu(events, settings) : reserved_by_pool(events);
  };
  plan.reserved = reserved(history);
  const TraceHistory with_scratch(work, first_event, /*has_scratch=*/true);
  runner::NamedBytes scratch = kernel_scratch(with_scratch.peak_bytes() - plan.live, backend);
  plan.needed = std::max(reserved(with_scratch), plan.reserved);
  const std::int64_t rounding = plan.needed - plan.live - scratch.bytes;
  const runner::NamedBytes margin = margin_of(plan.needed, work.storages, is_gpu);
  plan.needed += margin.bytes;
  plan.terms = {margin, std::move(scratch)};
  for (runner::NamedBytes& term : backend_terms(backend)) {
    plan.needed += term.bytes;
    plan.terms.push_back(std::move(term));
  }
  std::int64_t casts = 0;
  for (const TracedStorage* storage : alive) casts += storage->is_cast ? storage->bytes : 0;
  if (casts > 0) {
    plan.terms.push_back({.name = "cast_cache",
                          .bytes = casts,
                          .note = "in live: half-precision copies of weights in autocast's cache"});
  }
  plan.terms.push_back({.name = std::string(kRoundingTerm),
                        .bytes = rounding,
                        .note = is_gpu
                                    ? "sizes rounded to 512 bytes, and unused parts of segments"
                                    : "block headers, rounding to pages, and gaps between blocks"});
  return plan;
}

std::string_view backend_terms_version() { return "terms-3, LibTorch " TORCH_VERSION; }

std::vector<runner::NamedBytes> backend_terms(const Backend& backend) {
  if (backend.device != at::kCUDA) return {};
  const GpuContext context = gpu_context(backend.model);
  return {{.name = std::string(kContextTerm), .bytes = context.in_all, .note = context.source}};
}

}  // namespace stages
