#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "stages/named_tensors.h"

namespace stages {

/// What a safetensors file holds (huggingface.co/docs/safetensors): tensors by name, and texts about them.
struct Safetensors {
  NamedTensors tensors;  ///< on the CPU, sorted by name
  std::map<std::string, std::string> metadata;
};

/// Writes `tensors`, sorted by name, from whatever device they are on. The file appears whole or not at all: it is
/// written beside itself, flushed to the disk and renamed. Throws runner::StageError where the disk does not take it,
/// and leaves what was there before.
void write_safetensors(const std::filesystem::path& path, const NamedTensors& tensors,
                       const std::map<std::string, std::string>& metadata = {});

/// Reads a file nobody has vouched for: every number in it is checked against the file's size before memory is
/// allocated for it. Throws runner::StageError saying what is wrong with the file.
Safetensors read_safetensors(const std::filesystem::path& path);

}  // namespace stages
