#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "runner/parent/schema/schema.h"
#include "runner/shared/error/diagnostic.h"

namespace runner {

/// What is known about a name, as text and as JSON.
struct Explanation {
  std::string text;  ///< lines
  nlohmann::ordered_json json;
};

/// Explains the argument of `retort explain WHAT`: an option's key ("train.epochs", for every kind
/// that has it), a kind ("train.supervised", "train/optimizer/adamw"), a family or folder of kinds
/// ("train", "train/optimizer") or an error code ("E0301"). Anything else is a kUsage with the
/// nearest of these names.
///
/// The JSON has the name under "key", "kind", "kinds" or "code", depending on which it is.
Result<Explanation> explain(const SchemaSet& schemas, std::string_view what);

/// Everything that can be explained, for completion: keys, kinds, families and folders of kinds,
/// codes.
std::vector<std::string> explainable(const SchemaSet& schemas);

}  // namespace runner
