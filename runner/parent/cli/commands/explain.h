#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "runner/parent/schema/schema.h"
#include "runner/shared/error/diagnostic.h"

namespace runner {

/// The explanation of a name, as text and as JSON.
struct Explanation {
  std::string text;  ///< complete lines, for a terminal
  nlohmann::ordered_json json;
};

/// Explains the argument of `retort explain WHAT`: an option's key ("train.epochs", for every kind
/// that has it), a common alias for a key ("lr"), a kind ("train.supervised",
/// "train/optimizer/adamw"), a family or folder of kinds ("train", "train/optimizer") or an error
/// code ("E0301"). Any other name is a kUsage error that suggests the closest match.
///
/// The JSON is an object with "key", "kind", "kinds" or "code", depending on what was explained.
Result<Explanation> explain(const SchemaSet& schemas, std::string_view what);

/// Returns the keys, kinds, families, folders of kinds and error codes that explain() accepts, for
/// completion.
std::vector<std::string> explainable(const SchemaSet& schemas);

}  // namespace runner
