#pragma once

#include <cstddef>
#include <string>
#include <vector>

/// Returns why no kernel can run on this machine, in CUDA's words, or an empty string if one can.
std::string no_gpu_because();

/// Computes the squared Euclidean norm of each row of `values`, which contains whole rows of
/// `width` numbers, on the first GPU. Sums are in single precision, in an order that does not
/// depend on the GPU. Throws std::runtime_error with CUDA's message.
std::vector<float> squared_row_norms_on_gpu(const std::vector<float>& values, std::size_t width);

/// Computes the same norms on the CPU, bit for bit.
std::vector<float> squared_row_norms_on_cpu(const std::vector<float>& values, std::size_t width);
