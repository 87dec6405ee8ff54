#pragma once

#include <cstdint>

#include <c10/util/FunctionRef.h>

namespace stages {

/// Calls work(begin, end) for parts of 0 … count - 1 that are all of it, each on one of the threads
/// of torch's operators; a part has `grain` or more, or is the only one. What `work` throws reaches
/// the caller. Inside another parallel operator it is called once.
///
/// In place of at::parallel_for, a template that is parallel only in a source compiled for OpenMP
/// with LibTorch's own runtime, which is GCC's: elsewhere it is a loop.
void parallel_for(std::int64_t count, std::int64_t grain,
                  c10::function_ref<void(std::int64_t begin, std::int64_t end)> work);

}  // namespace stages
