#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runner/shared/disk/storage.h"
#include "stages/tensor/named_tensors.h"
#include "stages/weights/weights.h"

namespace stages {

/// What a safetensors file holds (huggingface.co/docs/safetensors): tensors by name, and texts
/// about them.
struct Safetensors {
  NamedTensors tensors;  ///< on the CPU, sorted by name
  std::map<std::string, std::string> metadata;
};

/// Hands the bytes of a file that holds `tensors` to `append`, piece by piece, from whatever device
/// they are on. They are laid out as the format's own writer does: the largest types first, then by
/// name. Each tensor is written dense, also one that shares its memory with another. Throws
/// runner::StageError for a type that the format has no name for.
void put_safetensors(const NamedTensors& tensors,
                     const std::map<std::string, std::string>& metadata,
                     const std::function<void(std::string_view)>& append);

/// Writes the file that put_safetensors() makes. It appears whole or not at all. Throws
/// runner::StageError where the disk does not take it, and leaves what was there before.
void write_safetensors(const std::filesystem::path& path, const NamedTensors& tensors,
                       const std::map<std::string, std::string>& metadata = {},
                       runner::Storage& storage = runner::disk());

/// How much of a file of weights is read.
enum class WeightContents {
  kNumbers,
  kShapes,  ///< the tensors are on the Meta device: their names, types and shapes
};

/// Reads a file nobody has vouched for: every number in it is checked against the file's size
/// before memory is allocated for it. The data may lie at any address. Throws runner::StageError
/// saying what is wrong with the file, and for tensors of 4 and 6 bits, which LibTorch has no
/// numbers for. So does a file that shrinks while it is read.
Safetensors read_safetensors(const std::filesystem::path& path,
                             WeightContents contents = WeightContents::kNumbers);
/// The same for tensors that need not be in memory together.
void read_safetensors(const std::filesystem::path& path, const WeightSink& sink);

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
