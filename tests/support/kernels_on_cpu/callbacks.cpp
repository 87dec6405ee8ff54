// Kernels are compiled with clang's pass of AddressSanitizer, but not linked with its runtime: the
// pass calls the functions below before each load and store, and lists the static variables. So one
// build of a kernel serves all checks, while AddressSanitizer and ThreadSanitizer need one each and
// do not know blocks and barriers.

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tests/support/kernels_on_cpu/launch.h"
#include "tests/support/kernels_on_cpu/shadow.h"

using kernels_on_cpu::see_access;

namespace {

/// A static variable, as the pass describes it.
struct StaticVariable {
  const void* begin;
  std::size_t size, size_with_gap;
  const char *name, *source;
  std::uintptr_t has_dynamic_init;
  const void* location;
  std::uintptr_t odr_indicator;
};

}  // namespace

// NOLINTBEGIN: the names are the compiler's.
extern "C" {

void __asan_load1_noabort(const void* from) { see_access(from, 1, false); }
void __asan_load2_noabort(const void* from) { see_access(from, 2, false); }
void __asan_load4_noabort(const void* from) { see_access(from, 4, false); }
void __asan_load8_noabort(const void* from) { see_access(from, 8, false); }
void __asan_load16_noabort(const void* from) { see_access(from, 16, false); }
void __asan_loadN_noabort(const void* from, std::size_t size) { see_access(from, size, false); }
void __asan_store1_noabort(const void* to) { see_access(to, 1, true); }
void __asan_store2_noabort(const void* to) { see_access(to, 2, true); }
void __asan_store4_noabort(const void* to) { see_access(to, 4, true); }
void __asan_store8_noabort(const void* to) { see_access(to, 8, true); }
void __asan_store16_noabort(const void* to) { see_access(to, 16, true); }
void __asan_storeN_noabort(const void* to, std::size_t size) { see_access(to, size, true); }

// The linker directs the kernels' calls here (--wrap).
void* __wrap_memcpy(void* to, const void* from, std::size_t size) {
  see_access(from, size, false);
  see_access(to, size, true);
  return std::memcpy(to, from, size);
}
void* __wrap_memmove(void* to, const void* from, std::size_t size) {
  see_access(from, size, false);
  see_access(to, size, true);
  return std::memmove(to, from, size);
}
void* __wrap_memset(void* to, int value, std::size_t size) {
  see_access(to, size, true);
  return std::memset(to, value, size);
}

void __asan_register_globals(const StaticVariable* variables, std::size_t count) {
  for (const StaticVariable* one = variables; one != variables + count; ++one)
    kernels_on_cpu::shadow().add(
        {one->name, one->begin, one->size, kernels_on_cpu::MemoryKind::kShared, false});
}
void __asan_unregister_globals(const StaticVariable* variables, std::size_t count) {
  for (const StaticVariable* one = variables; one != variables + count; ++one)
    kernels_on_cpu::shadow().remove(one->begin);
}
void __asan_handle_no_return() {}

}  // extern "C"
// NOLINTEND
