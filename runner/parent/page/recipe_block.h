#pragma once

#include "runner/parent/page/document.h"
#include "runner/parent/registry/run_details.h"

namespace runner {

/// Returns the resolved recipe of a run as YAML. Each value is followed by its origin, if the
/// record contains origins: "lr: 0.1 # recipes/classify.yaml:12".
CodeBlock recipe_block(const RunDetails& details);

}  // namespace runner
