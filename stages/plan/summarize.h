#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "runner/shared/stage/memory_plan.h"
#include "stages/machine/allocator_settings.h"
#include "stages/plan/memory_trace.h"

namespace stages {

/// Names of the terms for gaps between a CPU's tensors that are not as planned, and for what its
/// kernels may take.
inline constexpr std::string_view kMarginTerm = "margin", kKernelScratchTerm = "kernel_scratch";

/// What a trace says of memory from event `first_event` on, with what was alive by then: the peak,
/// whose it is, the curve and the operations computed. The allocator of the backend, LibTorch's of
/// a GPU or the CPU's pool, is replayed from the first event of all, and the terms besides it are
/// added. Node, device, budget and options are left open.
///
///   const std::size_t second_step = trace.events().size();
///   step(*network);
///   runner::MemoryPlan plan = summarize(trace, second_step, backend, policy.allocator);
///
/// On a CPU a step takes no less than `live`, which is its tensors, and no more than `predicted`,
/// which has an upper bound of what kernels take on whatever processor. Terms whose note begins
/// with "in live" or "in reserved" are parts of these; the others are what `predicted` has more
/// than `reserved`.
runner::MemoryPlan summarize(const MemoryTrace& trace, std::size_t first_event,
                             const Backend& backend, const AllocatorSettings& settings);

/// Which numbers these are: another version may give others for the same plan.
std::string_view backend_terms_version();

/// The term of a GPU's context, which lies outside the allocator of tensors.
inline constexpr std::string_view kContextTerm = "context";

/// What a device needs besides the tensors of a program, by name and with the source of the number:
/// nothing on a CPU, whose kernels take what they need from the allocator of tensors, so that the
/// trace bounds it.
std::vector<runner::NamedBytes> backend_terms(const Backend& backend);

}  // namespace stages
