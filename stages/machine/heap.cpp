#include "stages/machine/heap.h"

#include <malloc.h>

#include "runner/text/bytes.h"

namespace stages {
namespace {

constexpr int kMappedFrom = 128 << 10;  // bytes of a block that is had from the kernel and given back to it
constexpr int kKeptAtMost = 16 << 20;   // bytes at the top of the heap that are not given back

}  // namespace

void set_up_heap() {
  mallopt(M_MMAP_THRESHOLD, kMappedFrom);
  mallopt(M_TRIM_THRESHOLD, kKeptAtMost);
}

std::string heap_text() {
  return "malloc maps blocks from " + runner::bytes_text(kMappedFrom) + " on and keeps at most " +
         runner::bytes_text(kKeptAtMost) + " of freed memory";
}

}  // namespace stages
