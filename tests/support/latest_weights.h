#pragma once

#include <filesystem>
#include <string>

#include "tests/support/program.h"

/// The bytes of the weights that a training has saved last; empty if it has saved none.
inline std::string latest_weights(const std::filesystem::path& run) {
  const std::filesystem::path checkpoints = run / "nodes/train/checkpoints";
  std::string latest = file_text(checkpoints / "latest");
  if (latest.empty()) return "";
  latest.pop_back();
  return file_text(checkpoints / latest / "model.safetensors");
}
