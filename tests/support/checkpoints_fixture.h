#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "stages/checkpoint/checkpoints.h"
#include "tests/support/durable_storage.h"
#include "tests/support/temporary_folder.h"

namespace stages {

/// Saves checkpoints in a folder of its own.
class CheckpointsTest : public testing::Test {
 protected:
  using Names = std::vector<std::string>;

  std::filesystem::path folder() const { return base_ / "checkpoints"; }
  Checkpoints checkpoints(CheckpointOptions options = {}) {
    return Checkpoints(folder(), options, unflushed_);
  }
  Checkpoints checkpoints(CheckpointOptions options, runner::Storage& storage) const {
    return Checkpoints(folder(), options, storage);
  }
  Names entries() const {
    Names names;
    for (const auto& entry : std::filesystem::directory_iterator(folder()))
      names.push_back(entry.path().filename());
    std::ranges::sort(names);
    return names;
  }
  std::string pointer(const std::string& name) const { return base_.read("checkpoints/" + name); }
  void damage(const std::string& name) const {
    base_.write("checkpoints/" + name + "/model.safetensors", "damaged");
  }

  TemporaryFolder base_;
  UnflushedStorage unflushed_;
};

}  // namespace stages
