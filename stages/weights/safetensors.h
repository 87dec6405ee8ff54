#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>

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

}  // namespace stages
