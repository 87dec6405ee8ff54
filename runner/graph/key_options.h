#pragma once

#include <optional>

#include "runner/graph/graph.h"

namespace runner {

/// The options of `node` by which its result is known again: without secrets, and of a data stage without those that
/// change no sample (x-resume: safe), such as the loader's threads. nullopt where that are all of them.
std::optional<Value> key_options(const Node& node, const Value& recipe, const SchemaSet& schemas);

}  // namespace runner
