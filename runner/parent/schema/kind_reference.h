#pragma once

#include <string>

#include "runner/parent/schema/schema.h"

namespace runner {

/// What `retort stages --format md` prints: every kind and option as Markdown, one section for each
/// family
/// ("# recipe" holds the options of a whole recipe, "# sweep" what starts the trials of a sweep).
std::string kinds_markdown(const SchemaSet& schemas);

}  // namespace runner
