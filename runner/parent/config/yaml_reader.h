#pragma once

#include "runner/shared/error/diagnostic.h"
#include "runner/shared/value/value.h"

namespace runner {

/// Parses the text of a config file into a Value with a Location on every node; empty text is an
/// empty mapping. Unquoted scalars are typed by the rules of YAML 1.1 as PyYAML applies them (1e3
/// is a number, 010 is 8, yes is true), but without timestamps, as Hydra users expect; quoted
/// scalars stay strings. Keys become text, and Entry::key_type keeps their original type. Rejects
/// duplicate keys, a second document, tags other than the core ones, keys that are null, a list or
/// a mapping, more than 10,000 values or 16 MiB of text through aliases, more than 100,000 values,
/// invalid UTF-8, and nesting above 64, each with its location. Warnings about unquoted text that
/// YAML 1.1 reads unexpectedly (yes, 010, 1:30) are added to `warnings`.
Result<Value> read_yaml(const SourceText& source, Diagnostics* warnings = nullptr);

}  // namespace runner
