#pragma once

#include "runner/shared/error/diagnostic.h"
#include "runner/shared/graph/graph.h"
#include "runner/parent/schema/schema.h"

namespace runner {

/// Warnings of the options that somebody has written and that do nothing here, with the reason: by what a schema's
/// x-effective-when says of them, and by overrides of which a later one sets the same key. In a file an option that has
/// its default counts as not written.
Diagnostics options_without_effect(const Value& resolved, const Graph& graph, const SchemaSet& schemas);

}  // namespace runner
