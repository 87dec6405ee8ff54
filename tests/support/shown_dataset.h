#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runner/shared/stage/stage.h"
#include "stages/artifact/dataset.h"

namespace stages {

/// Six samples, "0" to "5", of which "3" is unreadable.
class ShownDataset : public Dataset, public ShownAsImages {
 public:
  DatasetDescription describe() const override { return {.size = 6}; }
  std::optional<NamedTensors> sample(std::int64_t, std::int64_t) const override { return {}; }
  std::string sample_name(std::int64_t index) const override { return std::to_string(index); }
  LoaderOptions loader() const override { return {}; }
  std::vector<std::uint8_t> jpeg_of(std::int64_t index, int) const override {
    if (index == 3) throw runner::StageError(runner::ErrorCode::kUnsupportedImage, "unreadable");
    return {0xFF, 0xD8, static_cast<std::uint8_t>(index)};
  }
};

}  // namespace stages
