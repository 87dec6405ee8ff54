#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "tests/support/program.h"

/// Overrides that turn the CLIP recipes into a model that trains quickly, from random weights.
inline constexpr const char* kSmallClip =
    "data.image_size=32 model.weights=null model.projection_dim=16 "
    "'model.image={hidden_size: 16, intermediate_size: 32, num_hidden_layers: 2, "
    "num_attention_heads: 2, patch_size: 8}' 'model.text={hidden_size: 16, intermediate_size: 32, "
    "num_hidden_layers: 2, "
    "num_attention_heads: 2}' ";

/// The largest difference between a value in one safetensors file and its counterpart in another
/// file of the same float32 tensors.
inline double most_different(const std::filesystem::path& one, const std::filesystem::path& other) {
  // The metadata about the training, including the last digits of its losses, is not a tensor.
  const auto parts_of = [](const std::filesystem::path& file) {
    const std::string text = file_text(file);
    std::uint64_t header = 0;
    if (text.size() < sizeof header)
      throw std::runtime_error(file.string() + " is no safetensors file");
    std::memcpy(&header, text.data(), sizeof header);
    nlohmann::json tensors = nlohmann::json::parse(text.substr(sizeof header, header));
    tensors.erase("__metadata__");
    return std::pair(std::move(tensors), text.substr(sizeof header + header));
  };
  const auto [names, a] = parts_of(one);
  const auto [others_names, b] = parts_of(other);
  if (names != others_names || a.size() != b.size())
    throw std::runtime_error("the files have other tensors");
  double most = 0;
  for (std::size_t at = 0; at + sizeof(float) <= a.size(); at += sizeof(float)) {
    float mine = 0, others = 0;
    std::memcpy(&mine, a.data() + at, sizeof mine);
    std::memcpy(&others, b.data() + at, sizeof others);
    most = std::max(most, std::abs(static_cast<double>(mine) - others));
  }
  return most;
}
