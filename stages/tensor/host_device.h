#pragma once

/// Marks a function shared by a CPU loop and a GPU kernel.
#ifdef __CUDACC__
#define RETORT_HOST_DEVICE __host__ __device__
#else
#define RETORT_HOST_DEVICE
#endif
