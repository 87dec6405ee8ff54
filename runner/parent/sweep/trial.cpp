#include "runner/parent/sweep/trial.h"

#include <algorithm>
#include <array>

#include "runner/shared/text/join.h"

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

std::string own_settings(const std::vector<Trial>& trials, std::uint64_t number) {
  const auto is_of_all = [&](const std::string& setting) {
    return std::ranges::all_of(
        trials, [&](const Trial& trial) { return std::ranges::find(trial.settings, setting) != trial.settings.end(); });
  };
  std::vector<std::string> own;
  for (const std::string& setting : trials[number].settings)
    if (!is_of_all(setting)) own.push_back(setting);
  return own.empty() ? "" : " (" + join(own, " ") + ")";
}

}  // namespace runner
