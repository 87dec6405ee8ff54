#pragma once

/// Before a function that a CPU's loop and a GPU's kernel share.
#ifdef __CUDACC__
#define RETORT_HOST_DEVICE __host__ __device__
#else
#define RETORT_HOST_DEVICE
#endif
