#pragma once

#include <string>
#include <utility>
#include <vector>

#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "stages/artifact/dataset.h"

namespace stages {

using Json = nlohmann::ordered_json;

/// The options of a backbone that computes quickly, and `more`.
inline Json small(const Json& more = Json::object()) {
  Json backbone = Json::parse(R"({"hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 2,
      "num_attention_heads": 2, "patch_size": 4, "projection_dim": 6, "features": "projected"})");
  backbone.update(more);
  return backbone;
}

inline DatasetDescription flowers(std::int64_t size = 8) {
  return {10,
          {{"image", {3, size, size}, at::kFloat}, {"label", {}, at::kLong}},
          {"daisy", "rose", "tulip"}};
}

inline at::Tensor pixels(std::int64_t size = 8) {
  return torch::linspace(-1, 1, 2 * 3 * size * size).reshape({2, 3, size, size});
}

}  // namespace stages
