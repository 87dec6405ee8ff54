#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "runner/parent/schema/schema.h"

namespace runner {

/// What the schema `document` at `path` ("train/supervised.schema.json") says about its kind of
/// stage. What is wrong is added to `errors`, and the Kind is then of no use.
Kind read_kind(const std::string& path, const nlohmann::ordered_json& document,
               Diagnostics& errors);

/// The title that a schema at `path` must have: "train.supervised", "train/optimizer/adam",
/// "recipe".
std::string title_of(const std::string& path);

/// Is the schema at `path` a stage's kind? It lies in one folder: its family.
bool is_stage_kind(std::string_view path);

}  // namespace runner
