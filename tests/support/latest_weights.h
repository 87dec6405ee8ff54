#pragma once

#include <filesystem>
#include <string>

#include "tests/support/program.h"

/// The folder of the last checkpoint that a training run saved; empty if it has saved none.
inline std::filesystem::path latest_checkpoint(const std::filesystem::path& run) {
  const std::filesystem::path checkpoints = run / "nodes/train/checkpoints";
  std::string latest = file_text(checkpoints / "latest");
  if (latest.empty()) return {};
  latest.pop_back();
  return checkpoints / latest;
}

/// The bytes of the last weights that a training run saved; empty if it has saved none.
inline std::string latest_weights(const std::filesystem::path& run) {
  const std::filesystem::path checkpoint = latest_checkpoint(run);
  return checkpoint.empty() ? "" : file_text(checkpoint / "model.safetensors");
}
