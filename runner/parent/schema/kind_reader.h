#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "runner/parent/schema/schema.h"

namespace runner {

/// Reads the Kind of stage declared by the schema `document` at `path`
/// ("train/supervised.schema.json"). Errors are added to `errors`; the Kind is then unusable.
Kind read_kind(const std::string& path, const nlohmann::ordered_json& document,
               Diagnostics& errors);

/// Returns the title required for a schema at `path`: "train.supervised", "train/optimizer/adam",
/// "recipe".
std::string title_of(const std::string& path);

/// True if the schema at `path` declares a kind of stage: it is directly in a top-level folder, its
/// family.
bool is_stage_kind(std::string_view path);

}  // namespace runner
