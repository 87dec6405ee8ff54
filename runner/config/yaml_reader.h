#pragma once

#include "runner/result.h"
#include "runner/value.h"

namespace runner {

/// The recipe's text as a Value with a Location on every node; an empty text is an empty mapping.
/// Plain scalars get their type by YAML 1.1's rules as PyYAML applies them, without timestamps
/// (shared with Hydra's users: 1e3 is a number, 010 is 8, yes is true); quoted ones stay strings.
/// Refused, each with its place: duplicate keys, a second document, tags other than the core ones,
/// keys that are not strings, more than 10,000 nodes through aliases, invalid UTF-8, nesting above 64.
Result<Value> read_yaml(const SourceText& source);

}  // namespace runner
