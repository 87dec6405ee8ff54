#include "runner/parent/sweep/slot_memory.h"

#include <algorithm>
#include <array>

#include "runner/parent/compile/recipe.h"
#include "runner/shared/text/join.h"
#include "runner/shared/text/units.h"

namespace runner {
namespace {

constexpr std::size_t kNamedTrials = 4;
constexpr std::array<std::string_view, 6> kNoPartOfPlan = {"name",  "seed", "run",
                                                           "sweep", "vars", "aliases"};

bool is_positive(const Value& value) {
  if (const auto* whole = std::get_if<std::int64_t>(&value.data)) return *whole > 0;
  const auto* number = std::get_if<double>(&value.data);
  return number && *number > 0;
}

/// Removes learning rates other than 0, which do not affect the plan. With a rate of 0, a step may
/// skip work.
void erase_learning_rates(Value& value) {
  if (auto* list = value.list()) std::ranges::for_each(*list, erase_learning_rates);
  auto* map = value.map();
  if (!map) return;
  std::erase_if(*map, [](const Entry& entry) {
    return entry.key == "learning_rate" && is_positive(entry.value);
  });
  for (Entry& entry : *map) erase_learning_rates(entry.value);
}

/// Returns a key that is equal for recipes with the same plan.
std::string planned_inputs(Value recipe) {
  if (recipe.map()) {
    std::erase_if(*recipe.map(), [](const Entry& entry) {
      return std::ranges::count(kNoPartOfPlan, entry.key) > 0;
    });
  }
  erase_learning_rates(recipe);
  return recipe_hash(recipe);
}

std::string trials_named(const std::vector<std::uint64_t>& numbers) {
  std::vector<std::string> names;
  for (const std::uint64_t number : numbers) names.push_back(std::to_string(number));
  return (names.size() == 1 ? "trial " : "trials ") + listed(names, kNamedTrials);
}

std::string memory_with_size(const NamedBytes& memory) {
  return memory.name + ", " + size_text(memory.bytes);
}

std::string at_a_time(std::size_t trials) {
  return std::to_string(trials) + (trials == 1 ? " trial" : " trials") + " at a time";
}

}  // namespace

void SlotMemory::add(std::uint64_t trial, const Value& recipe) {
  const std::string key = planned_inputs(recipe);
  if (!plans_.contains(key)) plans_.emplace(key, plan_of_(recipe));
  keys_[trial] = key;
}

bool SlotMemory::Load::fits(std::size_t there_are) const {
  if (device == "cuda") return trials.size() < 2 || gpus <= there_are;
  return trials.size() < 2 || memory.bytes == 0 || bytes <= memory.bytes;
}

std::vector<SlotMemory::Load> SlotMemory::loads(std::int64_t slots) const {
  std::map<std::string, std::vector<std::pair<std::uint64_t, const TrialPeak*>>> by_device;
  for (const auto& [trial, key] : keys_) {
    const Result<TrialPeak>& plan = plans_.at(key);
    if (plan && (plan->bytes > 0 || plan->device == "cuda"))
      by_device[plan->device].emplace_back(trial, &*plan);
  }
  std::vector<Load> loads;
  for (auto& [device, peaks] : by_device) {
    const bool counts_gpus = device == "cuda";
    std::ranges::stable_sort(peaks, std::greater(), [counts_gpus](const auto& one) {
      const TrialPeak& peak = *one.second;
      return counts_gpus ? static_cast<std::int64_t>(peak.gpus) : peak.bytes;
    });
    peaks.resize(std::min(peaks.size(), static_cast<std::size_t>(slots)));
    Load& load = loads.emplace_back(
        Load{.device = device, .memory = peaks.front().second->memory, .trials = {}});
    for (const auto& [trial, peak] : peaks) {
      load.bytes += peak->bytes;
      load.gpus += peak->gpus;
      load.trials.push_back(trial);
      if (peak->memory.bytes < load.memory.bytes) load.memory = peak->memory;
    }
  }
  return loads;
}

Diagnostics SlotMemory::check(std::int64_t slots) const {
  Diagnostics errors;
  const std::int64_t fit = fitting(slots);
  const std::string fewer = fit == 1 ? "--slots 1 runs them one after another"
                                     : "--slots " + std::to_string(fit) + " fits";
  for (const Load& load : loads(slots)) {
    if (load.fits(gpus_)) continue;
    if (load.device == "cuda") {
      errors.push_back(
          {ErrorCode::kOutOfMemory,
           {},
           "/device",
           at_a_time(load.trials.size()) +
               (load.gpus == load.trials.size()
                    ? " need a GPU each"
                    : " need " + std::to_string(load.gpus) + " GPUs together (device.count)") +
               ", and there are " + std::to_string(gpus_),
           fewer});
      continue;
    }
    const std::string where = load.device == "cpu" ? "" : " of " + load.device;
    errors.push_back({ErrorCode::kOutOfMemory,
                      {},
                      "",
                      at_a_time(load.trials.size()) + " may need " + size_text(load.bytes) +
                          " of " + memory_with_size(load.memory) + where + ": the plans of " +
                          trials_named(load.trials) + " together",
                      fewer + "; use smaller batches, or " + "memory=auto with memory.budget=" +
                          std::to_string((load.memory.bytes / slots) >> 20) + "MiB"});
  }
  return errors;
}

std::int64_t SlotMemory::fitting(std::int64_t most) const {
  const auto fits = [&](std::int64_t slots) {
    return std::ranges::all_of(loads(slots), [&](const Load& load) { return load.fits(gpus_); });
  };
  while (most > 1 && !fits(most)) --most;
  return std::max<std::int64_t>(most, 1);
}

std::string SlotMemory::text(std::int64_t slots) const {
  std::vector<std::string> parts;
  for (const Load& load : loads(slots)) {
    if (load.device == "cuda")
      parts.emplace_back(load.gpus == load.trials.size() ? "each on its own GPU"
                                                         : "each on its own GPUs");
    else if (load.memory.bytes > 0)
      parts.push_back("together they need at most " + size_text(load.bytes) + " of " +
                      memory_with_size(load.memory) +
                      (load.device == "cpu" ? "" : " of " + load.device));
  }
  return join(parts, "; ");
}

std::vector<std::string> SlotMemory::uncounted() const {
  std::map<std::string, std::vector<std::uint64_t>> trials;  // trial numbers by reason
  for (const auto& [trial, key] : keys_) {
    const Result<TrialPeak>& plan = plans_.at(key);
    if (!plan) trials["cannot be planned: " + plan.errors().front().message].push_back(trial);
    else if (!plan->unplanned.empty())
      trials["is only partly planned: " + plan->unplanned].push_back(trial);
  }
  std::vector<std::string> lines;
  for (const auto& [why, numbers] : trials) {
    std::string line = trials_named({numbers.front()}) + " " + why;
    if (numbers.size() > 1) line += ", and " + std::to_string(numbers.size() - 1) + " more";
    lines.push_back(line + "; this memory is not counted");
  }
  return lines;
}

}  // namespace runner
