#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "runner/shared/stage/memory_plan.h"
#include "stages/machine/allocator_settings.h"
#include "stages/plan/memory_trace.h"

namespace stages {

/// The names of the terms for a safety margin, for memory that kernels may allocate, and for the
/// allocator's gaps and rounding.
inline constexpr std::string_view kMarginTerm = "margin", kKernelScratchTerm = "kernel_scratch",
                                  kRoundingTerm = "allocator_rounding";

/// Summarizes the memory of a trace starting at event `first_event`, including what was live
/// before: the peak, its owners, the curve and the operations. It replays the backend's allocator
/// (LibTorch's on a GPU, the CPU's pool) from the very first event, and adds the other terms. Node,
/// device, budget and options are left empty.
///
///   const std::size_t second_step = trace.events().size();
///   step(*network);
///   runner::MemoryPlan plan = summarize(trace, second_step, backend, policy.allocator);
///
/// A step needs at least `live` bytes, for its tensors, and at most `needed`, which includes an
/// upper bound on the memory of kernels on any processor or GPU. A term with a note that begins
/// with "in live" is part of `live`; the others add up to the difference between `needed` and
/// `live`.
runner::MemoryPlan summarize(const MemoryTrace& trace, std::size_t first_event,
                             const Backend& backend, const AllocatorSettings& settings);

/// Summarizes `work`, which has `flops` operations in total, in the same way as a trace.
runner::MemoryPlan summarize(const RecordedWork& work, double flops, std::size_t first_event,
                             const Backend& backend, const AllocatorSettings& settings);

/// Returns the version of the terms. Different versions may compute different values for the same
/// step.
std::string_view backend_terms_version();

/// The name of the term for a GPU's context and loaded kernels, which are outside the tensor
/// allocator.
inline constexpr std::string_view kContextTerm = "context";

/// Returns the memory that a device needs in addition to a program's tensors, by name, with the
/// source of each number. Empty for a CPU: its kernels allocate from the tensor allocator, so the
/// trace includes a bound for them.
std::vector<runner::NamedBytes> backend_terms(const Backend& backend);

}  // namespace stages
