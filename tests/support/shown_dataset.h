#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "runner/shared/stage/stage.h"
#include "stages/artifact/dataset.h"
#include "tests/support/forwarded_dataset.h"

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

/// Shows the samples of another dataset; the last byte of an image is the sample's index.
class ShownSamples : public ForwardedDataset, public ShownAsImages {
 public:
  using ForwardedDataset::ForwardedDataset;
  std::vector<std::uint8_t> jpeg_of(std::int64_t index, int) const override {
    return {0xFF, 0xD8, static_cast<std::uint8_t>(index)};
  }
};

/// The examples that an evaluation has written into a node's folder; null if there are none.
inline nlohmann::json written_examples(const std::filesystem::path& node) {
  std::ifstream file(node / "examples/examples.json");
  return file ? nlohmann::json::parse(file) : nlohmann::json();
}

/// The names of the samples in a group of examples; `group` is the beginning of its name.
inline std::vector<std::string> names_of_group(const nlohmann::json& examples,
                                               const std::string& group) {
  std::vector<std::string> names;
  for (const auto& one : examples)
    if (one["group"].get<std::string>().starts_with(group)) names.push_back(one["name"]);
  return names;
}

}  // namespace stages
