#pragma once

#include <cstdint>
#include <vector>

#include "stages/random/launch_dropout.h"

/// The bytes of launch_dropout() on waves, a row of `width` for each sample, computed on the first
/// GPU. Throws std::runtime_error with CUDA's message.
std::vector<unsigned char> dropout_on_gpu(const stages::DropoutMask& mask, stages::FloatType type,
                                          const std::vector<std::int64_t>& samples,
                                          std::int64_t width);

/// The same an element at a time on the CPU.
std::vector<unsigned char> dropout_on_cpu(const stages::DropoutMask& mask, stages::FloatType type,
                                          const std::vector<std::int64_t>& samples,
                                          std::int64_t width);
