#pragma once

#include "runner/cli/command.h"
#include "runner/protocol/earlier_results.h"

namespace runner {

/// Of which nodes the results of earlier runs are taken.
struct ReuseFlags {
  bool all = false;   ///< --reuse
  bool none = false;  ///< --no-reuse

  ReuseOptions::Which which() const;
};

/// --no-reuse; and, described by `all_summary`, --reuse, where that is not empty.
void add_reuse(Invocation& verb, ReuseFlags& flags, const std::string& all_summary = "");

}  // namespace runner
