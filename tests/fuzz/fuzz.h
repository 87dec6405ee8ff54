#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

/// What libFuzzer calls with every input.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size);

inline std::string text_of(const std::uint8_t* bytes, std::size_t size) {
  return std::string(reinterpret_cast<const char*>(bytes), size);
}

/// Ends the program, which libFuzzer takes for a crash, unless `holds`.
inline void require(bool holds, const char* what, const std::string& seen) {
  if (holds) return;
  std::fprintf(stderr, "%s: %s\n", what, seen.c_str());
  std::abort();
}
