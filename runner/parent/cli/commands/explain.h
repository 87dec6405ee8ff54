#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "runner/parent/schema/schema.h"
#include "runner/shared/error/diagnostic.h"

namespace runner {

/// What is known of a thing, to be read and to be processed.
struct Explanation {
  std::string text;  ///< lines
  nlohmann::ordered_json json;
};

/// Explains what `retort explain WHAT` names: an option's key ("train.epochs", for every kind that
/// has it), a kind
/// ("train.supervised", "train/optimizer/adamw"), a family or folder of kinds ("train",
/// "train/optimizer") or an error's code ("E0301"). Anything else is a kUsage with the nearest of
/// them all.
///
/// The JSON holds the name under "key", "kind", "kinds" or "code", which tells them apart.
Result<Explanation> explain(const SchemaSet& schemas, std::string_view what);

/// All that can be explained, for completion: keys, kinds, families and folders of kinds, codes.
std::vector<std::string> explainable(const SchemaSet& schemas);

}  // namespace runner
