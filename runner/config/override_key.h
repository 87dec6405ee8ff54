#pragma once

#include <cstddef>

#include "runner/config/override.h"

namespace runner {

/// Reads what stands before '=' in `source`, from byte `start` to `end`: prefix, key and package are put into `result`.
/// A key is a path `a.b.0` or a config group `a/b`; beyond Hydra's, `a[0].b` is a.0.b. Throws OverrideError.
void read_override_key(const SourceText& source, std::size_t start, std::size_t end, Override& result);

/// The key of `text` without prefix, package and value, as far as it looks like one; used to look ahead.
std::size_t override_key_length(std::string_view text);

}  // namespace runner
