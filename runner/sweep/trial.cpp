#include "runner/sweep/trial.h"

#include <algorithm>
#include <array>

namespace runner {
namespace {

constexpr std::array<std::string_view, 6> kTrialStates = {"waiting", "running",     "finished",
                                                          "failed",  "interrupted", "stopped"};

}  // namespace

std::string_view name(TrialState state) { return kTrialStates[static_cast<std::size_t>(state)]; }

std::optional<TrialState> trial_state_named(std::string_view name) {
  const auto* const found = std::ranges::find(kTrialStates, name);
  if (found == kTrialStates.end()) return std::nullopt;
  return static_cast<TrialState>(found - kTrialStates.begin());
}

}  // namespace runner
