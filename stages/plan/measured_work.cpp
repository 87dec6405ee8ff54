#include "stages/plan/measured_work.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <string>

#include "stages/plan/plan_forward.h"
#include "stages/plan/summarize.h"

namespace stages {
namespace {

/// If memory per unit grows by more than this factor from each run to the next, memory grows faster
/// than linearly.
constexpr double kFaster = 1.1;

/// Extrapolates from `runs`, pairs of units and bytes, to the bytes for `units`.
std::int64_t grown(const std::vector<std::pair<std::int64_t, std::int64_t>>& runs,
                   std::int64_t units) {
  const auto [last_units, last] = runs.back();
  const auto [first_units, first] = runs.front();
  std::int64_t most = 0;
  for (const auto& [of, bytes] : runs) most = std::max(most, bytes);
  const auto more = static_cast<double>(units - last_units);
  const auto per_unit = [](const std::pair<std::int64_t, std::int64_t>& run) {
    return static_cast<double>(run.second) / static_cast<double>(run.first);
  };
  if (runs.size() == 1)
    return static_cast<std::int64_t>(std::ceil(per_unit(runs[0]) * static_cast<double>(units)));
  bool grows_faster = first > 0;
  for (std::size_t i = 1; i < runs.size(); ++i)
    grows_faster = grows_faster && per_unit(runs[i]) > kFaster * per_unit(runs[i - 1]);
  if (grows_faster) {
    const double times = static_cast<double>(units) / static_cast<double>(last_units);
    return static_cast<std::int64_t>(std::ceil(static_cast<double>(last) * times * times));
  }
  const auto& before = runs[runs.size() - 2];
  const double slope = std::max(
      {static_cast<double>(last - before.second) / static_cast<double>(last_units - before.first),
       static_cast<double>(last - first) / static_cast<double>(last_units - first_units), 0.0});
  return most + static_cast<std::int64_t>(std::ceil(slope * more));
}

bool have_same_course(const RecordedWork& one, const RecordedWork& other) {
  return one.storages.size() == other.storages.size() &&
         std::ranges::equal(one.events, other.events, [](const TraceEvent& a, const TraceEvent& b) {
           return a.storage == b.storage && a.is_birth == b.is_birth;
         });
}

/// Returns `work` without the events of storages for which `is_left_out` returns true.
template <typename IsLeftOut>
RecordedWork without(const RecordedWork& work, IsLeftOut is_left_out) {
  RecordedWork rest{.storages = work.storages, .events = {}};
  std::ranges::copy_if(work.events, std::back_inserter(rest.events), [&](const TraceEvent& event) {
    return !is_left_out(work.storages[event.storage]);
  });
  return rest;
}

bool is_gradient(const TracedStorage& storage) { return storage.owner == Owner::kGradient; }

}  // namespace

std::int64_t most_live(const RecordedWork& work) {
  std::int64_t live = 0, most = 0;
  for (const TraceEvent& event : work.events) {
    live += (event.is_birth ? 1 : -1) * work.storages[event.storage].bytes;
    most = std::max(most, live);
  }
  return most;
}

void MeasuredWork::add(std::int64_t units, RecordedWork work) {
  assert(runs_.empty() || runs_.back().units < units);
  runs_.push_back({units, std::move(work)});
}

std::size_t MeasuredWork::first_alike() const {
  std::size_t first = runs_.size() - 1;
  while (first > 0 && have_same_course(runs_[first - 1].work, runs_.back().work)) --first;
  return first;
}

RecordedWork MeasuredWork::at(std::int64_t units) const {
  assert(!runs_.empty());
  for (const Run& run : runs_) {
    if (run.units >= units) return run.work;
  }
  const Run& last = runs_.back();
  const std::size_t first = first_alike();
  if (runs_.size() == 1 || first + 1 < runs_.size()) {
    RecordedWork work = last.work;
    for (std::size_t i = 0; i < work.storages.size(); ++i) {
      std::vector<std::pair<std::int64_t, std::int64_t>> sizes;
      for (std::size_t run = first; run < runs_.size(); ++run)
        sizes.emplace_back(runs_[run].units, runs_[run].work.storages[i].bytes);
      const bool is_constant = std::ranges::all_of(
          sizes, [&](const auto& size) { return size.second == sizes.front().second; });
      // A single run does not show which storages grow. Gradients do not grow.
      if (is_constant && (sizes.size() > 1 || is_gradient(work.storages[i]))) continue;
      work.storages[i].bytes = grown(sizes, units);
      work.storages[i].shape.clear();
    }
    return work;
  }
  std::int64_t most = 0;
  for (const Run& run : runs_)
    most = std::max(most, grown({{run.units, most_live(without(run.work, is_gradient))}}, units));
  RecordedWork work =
      without(last.work, [](const TracedStorage& one) { return !is_gradient(one); });
  const std::size_t whole = work.storages.size();
  work.storages.push_back(
      {.bytes = most, .owner = Owner::kMeasured, .name = "", .phase = StepPhase::kForward});
  work.events.insert(work.events.begin(), {whole, true, StepPhase::kForward, 0});
  work.events.push_back({whole, false, StepPhase::kBackward, 0});
  return work;
}

std::pair<double, double> MeasuredWork::allocations(std::int64_t units) const {
  const Run& last = runs_.back();
  double bytes = 0;
  for (const TracedStorage& storage : last.work.storages)
    bytes += static_cast<double>(storage.bytes);
  return {bytes * static_cast<double>(units) / static_cast<double>(last.units),
          static_cast<double>(last.work.storages.size())};
}

void MeasuredHistory::keep(TracedStorage storage) {
  work_.events.push_back({work_.storages.size(), true, storage.phase, 0});
  work_.storages.push_back(std::move(storage));
}

void MeasuredHistory::pass(TracedStorage storage) {
  const StepPhase phase = storage.phase;
  const std::size_t number = work_.storages.size();
  keep(std::move(storage));
  work_.events.push_back({number, false, phase, 0});
}

void MeasuredHistory::add(const RecordedWork& work, std::int64_t extra) {
  const std::size_t whole = work_.storages.size();
  if (extra > 0) keep({.bytes = extra, .owner = Owner::kInput, .name = "the rest of the batch"});
  const std::size_t first = work_.storages.size();
  work_.storages.insert(work_.storages.end(), work.storages.begin(), work.storages.end());
  for (TraceEvent event : work.events) {
    event.storage += first;
    work_.events.push_back(event);
  }
  if (extra > 0) work_.events.push_back({whole, false, StepPhase::kIdle, 0});
}

runner::MemoryPlan MeasuredHistory::plan(std::size_t first_event, std::int64_t units,
                                         const Backend& backend,
                                         const AllocatorSettings& settings) const {
  runner::MemoryPlan plan = summarize(work_, /*flops=*/0, first_event, backend, settings);
  const auto measured = std::ranges::find(plan.owners, name(Owner::kMeasured),
                                          [](const auto& owner) { return owner.name; });
  std::int64_t bytes = 0;
  if (measured != plan.owners.end()) {
    bytes = measured->bytes;
    measured->note =
        "activations of " + std::to_string(units) + " samples, and all other memory of a step";
  }
  add_term(plan, {"values", bytes / 10,
                  "a tenth of the measured memory, since other values may need more"});
  return plan;
}

}  // namespace stages
