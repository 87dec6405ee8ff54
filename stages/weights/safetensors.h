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

/// The contents of a safetensors file (huggingface.co/docs/safetensors): tensors by name, and text
/// metadata.
struct Safetensors {
  NamedTensors tensors;  ///< on the CPU, sorted by name
  std::map<std::string, std::string> metadata;
};

/// Returns the numbers of a tensor to be written, dense, on the CPU; undefined: they are not
/// written here.
using BringTensor = std::function<at::Tensor(const NamedTensors::Item& item)>;
at::Tensor bring_here(const NamedTensors::Item& item);

/// Passes the bytes of a safetensors file with `tensors` to `append`, piece by piece, from any
/// device. The layout is that of the format's own writer: the largest types first, then by name.
/// Each tensor is written dense, even if it shares memory with another. `bring` is called for one
/// after the other, in the file's order; their types and shapes suffice until then. Throws
/// runner::StageError for a type that the format does not have.
void put_safetensors(const NamedTensors& tensors,
                     const std::map<std::string, std::string>& metadata,
                     const std::function<void(std::string_view)>& append,
                     const BringTensor& bring = bring_here);

/// Writes the file that put_safetensors() makes, atomically. Throws runner::StageError if the disk
/// refuses the write, and leaves the previous file.
void write_safetensors(const std::filesystem::path& path, const NamedTensors& tensors,
                       const std::map<std::string, std::string>& metadata = {},
                       runner::Storage& storage = runner::disk());

/// How much of a weights file is read.
enum class WeightContents {
  kNumbers,
  kShapes,  ///< the tensors are on the Meta device: names, types and shapes only
};

/// Reads an untrusted file: every number in it is checked against the file's size before memory is
/// allocated for it. Data need not be aligned. Throws runner::StageError with the fault in the
/// file, also if the file shrinks while it is read, and for tensors of 4 and 6 bits, which LibTorch
/// does not support.
Safetensors read_safetensors(const std::filesystem::path& path,
                             WeightContents contents = WeightContents::kNumbers);
/// The same, with `contents` of each tensor.
using ContentsOf = std::function<WeightContents(const std::string& name)>;
Safetensors read_safetensors(const std::filesystem::path& path, const ContentsOf& contents_of);
/// The same for tensors that are too large to hold in memory together.
void read_safetensors(const std::filesystem::path& path, const WeightSink& sink);

}  // namespace stages
