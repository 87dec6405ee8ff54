#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "runner/shared/stage/memory_plan.h"
#include "stages/machine/allocator_settings.h"
#include "stages/plan/memory_trace.h"

namespace stages {

/// Names of the terms for gaps between tensors that differ from the plan, and for memory that
/// kernels may take.
inline constexpr std::string_view kMarginTerm = "margin", kKernelScratchTerm = "kernel_scratch",
                                  kRoundingTerm = "allocator_rounding";

/// Summarizes the memory of a trace from event `first_event` on, including what was alive by then:
/// the peak, its owners, the curve and the operations computed. It replays the backend's allocator,
/// LibTorch's on a GPU or the CPU's pool, from the very first event, and adds the other terms.
/// Node, device, budget and options are left open.
///
///   const std::size_t second_step = trace.events().size();
///   step(*network);
///   runner::MemoryPlan plan = summarize(trace, second_step, backend, policy.allocator);
///
/// A step takes at least `live`, which is its tensors, and at most `needed`, which includes an
/// upper bound of what kernels take: on any processor, or on a GPU. A term whose note begins with
/// "in live" is a part of that; the others make up the difference between `needed` and `live`.
runner::MemoryPlan summarize(const MemoryTrace& trace, std::size_t first_event,
                             const Backend& backend, const AllocatorSettings& settings);

/// The same for work with so many operations in all.
runner::MemoryPlan summarize(const RecordedWork& work, double flops, std::size_t first_event,
                             const Backend& backend, const AllocatorSettings& settings);

/// The version of these numbers: another version may give other numbers for the same plan.
std::string_view backend_terms_version();

/// The term of a GPU's context and loaded kernels, which lie outside the tensor allocator.
inline constexpr std::string_view kContextTerm = "context";

/// The memory that a device needs in addition to the tensors of a program, by name and with the
/// source of the number. Nothing on a CPU: its kernels take their memory from the tensor allocator,
/// so the trace bounds it.
std::vector<runner::NamedBytes> backend_terms(const Backend& backend);

}  // namespace stages
