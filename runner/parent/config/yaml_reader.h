#pragma once

#include "runner/shared/error/diagnostic.h"
#include "runner/shared/value/value.h"

namespace runner {

/// Parses a recipe's text to a Value with a Location on every node; an empty text is an empty
/// mapping. Plain scalars get their type by YAML 1.1's rules as PyYAML applies them, without
/// timestamps (the same as for Hydra users: 1e3 is a number, 010 is 8, yes is true); quoted ones
/// stay strings. Keys become text, and Entry::key_type holds their original type. Rejects, each
/// with its place: duplicate keys, a second document, tags other than the core ones, keys that are
/// null, a list or a mapping, more than 10,000 values or 16 MiB of text through aliases, more than
/// 100,000 values, invalid UTF-8, nesting above 64. Warnings about unquoted texts that YAML 1.1
/// reads unexpectedly (yes, 010, 1:30) are added to `warnings`.
Result<Value> read_yaml(const SourceText& source, Diagnostics* warnings = nullptr);

}  // namespace runner
