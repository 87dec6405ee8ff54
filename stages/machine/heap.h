#pragma once

#include <string>

namespace stages {

/// Makes malloc, where the CPU's tensors come from, give large blocks back to the kernel when they are let go, so that
/// what is resident is what is live: left alone, glibc keeps ever larger ones, and a process takes up to 1.8 times what
/// its tensors do. To be called once, before there is a second thread.
void set_up_heap();

/// What set_up_heap() does, for the log.
std::string heap_text();

}  // namespace stages
