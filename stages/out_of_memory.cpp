#include "stages/out_of_memory.h"

#include <new>
#include <string_view>

#include <c10/util/Exception.h>

namespace stages {

bool is_out_of_memory(const std::exception& error) {
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) || dynamic_cast<const std::bad_alloc*>(&error)) return true;
  // Memory that CUDA itself was asked for, past torch's allocator: cudaErrorMemoryAllocation.
  if (const auto* device = dynamic_cast<const c10::AcceleratorError*>(&error)) return device->get_error_code() == 2;
  // The CPU's allocator has no type of its own.
  const auto* host = dynamic_cast<const c10::Error*>(&error);
  return host &&
         std::string_view(host->what_without_backtrace()).find("can't allocate memory") != std::string_view::npos;
}

}  // namespace stages
