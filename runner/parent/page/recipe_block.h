#pragma once

#include "runner/parent/page/document.h"
#include "runner/parent/registry/run_details.h"

namespace runner {

/// Returns the resolved recipe of a run as YAML. Each value has its origin after it, if the record
/// contains the origins: "lr: 0.1    # recipes/classify.yaml:12".
CodeBlock recipe_block(const RunDetails& details);

}  // namespace runner
