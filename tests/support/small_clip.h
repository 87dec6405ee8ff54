#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <stdexcept>

#include "tests/support/program.h"

/// Overrides that make of the recipes for CLIP a model that trains in no time, from random weights.
inline constexpr const char* kSmallClip =
    "data.image_size=32 model.weights=null model.projection_dim=16 "
    "'model.image={hidden_size: 16, intermediate_size: 32, num_hidden_layers: 2, num_attention_heads: 2, "
    "patch_size: 8}' "
    "'model.text={hidden_size: 16, intermediate_size: 32, num_hidden_layers: 2, num_attention_heads: 2}' ";

/// The most that a number of one safetensors file differs from its counterpart in another of the same float32 tensors.
inline double most_different(const std::filesystem::path& one, const std::filesystem::path& other) {
  const std::string a = file_text(one), b = file_text(other);
  std::uint64_t begin = 0;
  if (a.size() <= sizeof begin || a.size() != b.size()) throw std::runtime_error("the files have other tensors");
  std::memcpy(&begin, a.data(), sizeof begin);
  begin += sizeof begin;
  if (begin > a.size() || a.compare(0, begin, b, 0, begin) != 0)
    throw std::runtime_error("the files have other tensors");
  double most = 0;
  for (std::size_t at = begin; at + sizeof(float) <= a.size(); at += sizeof(float)) {
    float mine = 0, others = 0;
    std::memcpy(&mine, a.data() + at, sizeof mine);
    std::memcpy(&others, b.data() + at, sizeof others);
    most = std::max(most, std::abs(static_cast<double>(mine) - others));
  }
  return most;
}
