#pragma once

#include <cstdint>
#include <string>

namespace runner {

/// A run went on after memory had run out, or after its worker had died.
struct Recovery {
  std::string cause;      ///< "out of memory", "memory is free again", "device lost", "killed"
  std::string phase;      ///< of the step, "backward"; empty: unknown
  std::int64_t step = 0;  ///< 1-based; 0: in none
  std::int64_t tried = 0, taken = 0;  ///< bytes: asked for in vain, and held then; 0: unknown
  std::int64_t limit = 0;             ///< bytes that may be held; 0: none was reached
  std::string from, to;  ///< ways of computing the same, or devices; equal: it was done once more
  bool operator==(const Recovery&) const = default;
};

}  // namespace runner
