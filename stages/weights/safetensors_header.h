#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace stages {

/// The types that the format names, in the order of huggingface.co/docs/safetensors' own writer: of
/// two, the later one stands first in a file, so that every tensor lies at a multiple of its own
/// size.
enum class SafetensorsType {
  kBool,
  kF4,
  kF6E2M3,
  kF6E3M2,
  kU8,
  kI8,
  kF8E5M2,
  kF8E4M3,
  kF8E8M0,
  kF8E4M3Fnuz,
  kF8E5M2Fnuz,
  kI16,
  kU16,
  kF16,
  kBF16,
  kI32,
  kU32,
  kF32,
  kC64,
  kF64,
  kI64,
  kU64,
};

/// As it stands in a file: "BF16".
std::string_view name(SafetensorsType type);

/// Where one tensor lies in a safetensors file.
struct SafetensorsEntry {
  std::string name;
  SafetensorsType type = SafetensorsType::kF32;
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

/// The header's text without its length: the metadata, then the entries in their order, padded with
/// spaces so that the data begins at a multiple of 8.
std::string to_text(const SafetensorsHeader& header);

/// Reads a header that is followed by `data_bytes` bytes of data. Every byte of the data must
/// belong to exactly one tensor, and no text is taken for UTF-8 that is not. Throws
/// std::invalid_argument saying what is wrong, in half a sentence: "the tensor 'a' has …".
SafetensorsHeader parse_safetensors_header(std::string_view text, std::int64_t data_bytes);

}  // namespace stages
