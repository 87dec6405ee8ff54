#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace stages {

/// The types of the format, in the order of the format's own writer
/// (huggingface.co/docs/safetensors). Later types come first in a file, so every tensor is aligned
/// to its element size.
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

/// Returns the name of the type in a file, such as "BF16".
std::string_view name(SafetensorsType type);

/// The position of one tensor in a safetensors file.
struct SafetensorsEntry {
  std::string name;
  SafetensorsType type = SafetensorsType::kF32;
  std::vector<std::int64_t> shape;
  std::int64_t begin = 0, end = 0;  ///< byte offsets from the end of the header
};

/// The JSON header of a safetensors file.
struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  ///< in byte order if parsed
  std::map<std::string, std::string> metadata;
};

/// Longer headers are rejected, as they are by the format's own reader.
inline constexpr std::int64_t kLongestSafetensorsHeader = 100'000'000;

/// Returns the text of the header without its length: the metadata, then the entries in order,
/// padded with spaces so that the data begins at a multiple of 8.
std::string to_text(const SafetensorsHeader& header);

/// Parses a header that is followed by `data_bytes` bytes of data. Every byte of the data must
/// belong to exactly one tensor, and all text must be valid UTF-8. Throws std::invalid_argument
/// with a clause that describes the error: "the tensor 'a' has …".
SafetensorsHeader parse_safetensors_header(std::string_view text, std::int64_t data_bytes);

}  // namespace stages
