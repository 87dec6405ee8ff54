#pragma once

#include <string>

#include <ATen/core/Tensor.h>

namespace stages {

/// Returns a tensor's shape as Python writes it, but for the comma in "(3)": "(2, 3)".
inline std::string shape_text(const at::Tensor& tensor) {
  std::string text;
  for (const std::int64_t size : tensor.sizes())
    text += (text.empty() ? "" : ", ") + std::to_string(size);
  return '(' + text + ')';
}

}  // namespace stages
