#pragma once

#include <cstdint>
#include <vector>

#include "stages/random/launch_dropout.h"

/// Computes launch_dropout() of waves, one row of `width` per sample, at a step, on the first GPU,
/// and returns the bytes. Throws std::runtime_error with CUDA's message.
std::vector<unsigned char> dropout_on_gpu(const stages::DropoutMask& mask, stages::FloatType type,
                                          std::int64_t step,
                                          const std::vector<std::int64_t>& samples,
                                          std::int64_t width);

/// Computes the same bytes on the CPU, one element at a time.
std::vector<unsigned char> dropout_on_cpu(const stages::DropoutMask& mask, stages::FloatType type,
                                          std::int64_t step,
                                          const std::vector<std::int64_t>& samples,
                                          std::int64_t width);
