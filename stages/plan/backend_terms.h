#pragma once

#include <string_view>
#include <vector>

#include "runner/shared/stage/memory_plan.h"
#include "stages/plan/memory_trace.h"

namespace stages {

/// Which numbers these are: another version may give others for the same plan.
std::string_view backend_terms_version();

/// The term of a GPU's context, which lies outside the allocator of tensors.
inline constexpr std::string_view kContextTerm = "context";

/// What a device needs besides the tensors of a program, by name and with the source of the number: nothing on a CPU,
/// whose kernels take what they need from the allocator of tensors, so that the trace bounds it.
std::vector<runner::NamedBytes> backend_terms(const Backend& backend);

}  // namespace stages
