#pragma once

namespace stages {

/// Gives the Meta device the operators that LibTorch has no Meta kernel for in C++: shape functions, which allocate
/// what the kernels of the living trace's backend allocate, their temporaries included; without a trace those of a CPU
/// with one thread. To be called before a dry run; calls after the first do nothing.
void register_meta_kernels();

}  // namespace stages
