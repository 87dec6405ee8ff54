#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

namespace stages {

/// Where one tensor lies in a safetensors file.
struct SafetensorsEntry {
  std::string name;
  at::ScalarType dtype;
  std::vector<std::int64_t> shape;
  std::int64_t begin = 0, end = 0;  ///< bytes after the header
};

/// The JSON at the front of a safetensors file.
struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  ///< when parsed: in the order of their bytes
  std::map<std::string, std::string> metadata;
};

/// Longer headers are refused, as the format's own reader does.
inline constexpr std::int64_t kLongestSafetensorsHeader = 100'000'000;

/// The header's text without its length, keys sorted, padded with spaces so that the data begins at a multiple of 8.
/// Throws std::invalid_argument for a type the format has no name for.
std::string to_text(const SafetensorsHeader& header);

/// Reads a header that is followed by `data_bytes` bytes of data. Every byte of the data must belong to exactly one
/// tensor. Throws std::invalid_argument saying what is wrong, in half a sentence: "the tensor 'a' has …".
SafetensorsHeader parse_safetensors_header(std::string_view text, std::int64_t data_bytes);

}  // namespace stages
