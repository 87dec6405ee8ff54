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

/// The contents of a safetensors file (huggingface.co/docs/safetensors): named tensors and text
/// metadata.
struct Safetensors {
  NamedTensors tensors;  ///< on the CPU, sorted by name
  std::map<std::string, std::string> metadata;
};

/// Returns a tensor to write, dense and on the CPU; an undefined tensor if this process does not
/// write it.
using BringTensor = std::function<at::Tensor(const NamedTensors::Item& item)>;
at::Tensor bring_here(const NamedTensors::Item& item);

/// Passes the bytes of a safetensors file with `tensors`, on any device, to `append`, piece by
/// piece. The layout matches the format's own writer: tensors of the largest types first, then by
/// name. Each tensor is written dense, even if it shares memory with another. `bring` is called for
/// each tensor in file order; until then only its type and shape are needed. Throws
/// runner::StageError for a type that the format does not support.
void put_safetensors(const NamedTensors& tensors,
                     const std::map<std::string, std::string>& metadata,
                     const std::function<void(std::string_view)>& append,
                     const BringTensor& bring = bring_here);

/// Writes a safetensors file atomically (see put_safetensors()). If that fails, throws
/// runner::StageError and leaves the previous file unchanged.
void write_safetensors(const std::filesystem::path& path, const NamedTensors& tensors,
                       const std::map<std::string, std::string>& metadata = {},
                       runner::Storage& storage = runner::disk());

/// How much to read of each tensor in a weights file.
enum class WeightContents {
  kNumbers,
  kShapes,  ///< only names, types and shapes; the tensors are on the Meta device
};

/// Reads a safetensors file, which is not trusted: sizes are checked against the file's size before
/// memory is allocated. Data need not be aligned. Throws runner::StageError describing the error if
/// the file is malformed, if it shrinks while being read, and for 4-bit and 6-bit types, which
/// LibTorch does not support.
Safetensors read_safetensors(const std::filesystem::path& path,
                             WeightContents contents = WeightContents::kNumbers);
/// Reads a safetensors file; `contents_of` decides for each tensor how much of it to read.
using ContentsOf = std::function<WeightContents(const std::string& name)>;
Safetensors read_safetensors(const std::filesystem::path& path, const ContentsOf& contents_of);
/// Passes the tensors of a safetensors file to `sink` piece by piece, for files with tensors that
/// do not all fit in memory at once.
void read_safetensors(const std::filesystem::path& path, const WeightSink& sink);

/// Copies the tensors of a safetensors file to those of `weights` with the same names, on any
/// device, piece by piece. Skips weights without memory (tensor_memory.h) and names that occur in
/// only one of the two. The shapes must be equal.
void read_safetensors_into(const NamedTensors& weights, const std::filesystem::path& path);

}  // namespace stages
