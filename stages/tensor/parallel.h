#pragma once

#include <cstdint>

#include <c10/util/FunctionRef.h>

namespace stages {

/// Divides 0 … count - 1 into parts and calls work(begin, end) for each, on the threads of torch's
/// operators. Each part has at least `grain` numbers unless it is the only one. Exceptions from
/// `work` are rethrown to the caller. Inside another parallel operator, `work` is called once for
/// all numbers.
///
/// Use this instead of at::parallel_for, a template that is parallel only in sources compiled for
/// OpenMP with LibTorch's own runtime (GCC's); elsewhere it is a serial loop.
void parallel_for(std::int64_t count, std::int64_t grain,
                  c10::function_ref<void(std::int64_t begin, std::int64_t end)> work);

}  // namespace stages
