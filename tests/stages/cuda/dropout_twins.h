#pragma once

#include <cstdint>
#include <vector>

#include "stages/random/launch_dropout.h"

/// Applies launch_dropout() to waves, with one row of `width` values per sample, on the first GPU,
/// and returns the bytes. Throws std::runtime_error with CUDA's message.
std::vector<unsigned char> dropout_on_gpu(const stages::DropoutMask& mask, stages::FloatType type,
                                          const std::vector<std::int64_t>& samples,
                                          std::int64_t width);

/// Computes the same bytes on the CPU, one element at a time.
std::vector<unsigned char> dropout_on_cpu(const stages::DropoutMask& mask, stages::FloatType type,
                                          const std::vector<std::int64_t>& samples,
                                          std::int64_t width);
