#include "runner/cli/reuse_flags.h"

namespace runner {

ReuseOptions::Which ReuseFlags::which() const {
  using Which = ReuseOptions::Which;
  return none ? Which::kNone : all ? Which::kAll : Which::kCacheable;
}

void add_reuse(Invocation& verb, ReuseFlags& flags, const std::string& all_summary) {
  if (!all_summary.empty()) verb.add({.name = "--reuse", .value = &flags.all, .summary = all_summary});
  verb.add({.name = "--no-reuse",
            .value = &flags.none,
            .summary = "Compute everything, even the features that an earlier run computed",
            .excludes = all_summary.empty() ? "" : "--reuse"});
}

}  // namespace runner
