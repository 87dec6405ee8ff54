#pragma once

#include <string>

#include "runner/shared/error/diagnostic.h"
#include "runner/shared/value/value.h"

namespace runner {

class SchemaSet;

/// The home folder in place of a "~" that `path` begins with: "~" or "~/…". Others are left as they are.
std::string with_home(const std::string& path);

/// Does that with all options of the resolved recipe that are paths, wherever they were written. An error for what a
/// shell would understand and nothing here does, which would make or look for a folder of that very name: "~anna/…",
/// "$HOME/…", and where a run or sweep is to go "a/~/b".
Diagnostics settle_home(Value& resolved, const SchemaSet& schemas);

}  // namespace runner
