#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "stages/plan/memory_trace.h"

namespace stages {

/// The live storages and the number of live bytes after each event. Borrows the recorded work.
class TraceHistory {
 public:
  /// Uses the events of `work` starting at `first`, with or without the memory that kernels may
  /// allocate for themselves.
  TraceHistory(const RecordedWork& work, std::size_t first, bool has_scratch)
      : storages_(work.storages) {
    events_.reserve(work.events.size());
    const std::vector<TraceEvent>& events = work.events;
    for (std::size_t i = 0; i < events.size(); ++i) {
      if (i == first) first_ = events_.size();
      if (has_scratch || !storages_[events[i].storage].is_scratch) events_.push_back(events[i]);
    }
    if (first >= events.size()) first_ = events_.size();
    std::int64_t live = 0;
    for (std::size_t i = 0; i < events_.size(); ++i) {
      live += (events_[i].is_birth ? 1 : -1) * storage(i).bytes;
      if (i + 1 == first_) before_ = live;
      if (i >= first_) live_.push_back(live);
    }
    const auto most = std::ranges::max_element(live_);
    if (most != live_.end() && *most > before_)
      peak_ = static_cast<std::size_t>(most - live_.begin());
  }

  TraceHistory(const RecordedWork&& work, std::size_t first, bool has_scratch) = delete;

  /// Returns the live bytes at the peak, which may be before the first event.
  std::int64_t peak_bytes() const { return peak_ ? live_[*peak_] : before_; }
  /// Returns the event that reaches the peak; nullopt if live bytes never exceed those before the
  /// first event.
  std::optional<std::size_t> peak_event() const {
    return peak_ ? std::optional(first_ + *peak_) : std::nullopt;
  }
  const std::vector<TraceEvent>& events() const { return events_; }
  const TracedStorage& storage(std::size_t event) const {
    return storages_[events_[event].storage];
  }
  std::size_t first() const { return first_; }
  const std::vector<std::int64_t>& live() const { return live_; }

  std::vector<const TracedStorage*> alive_at_peak() const {
    const std::size_t end = peak_ ? first_ + *peak_ + 1 : first_;
    std::vector<bool> is_alive(storages_.size());
    for (std::size_t i = 0; i < end; ++i) is_alive[events_[i].storage] = events_[i].is_birth;
    std::vector<const TracedStorage*> result;
    for (std::size_t i = 0; i < storages_.size(); ++i) {
      if (is_alive[i]) result.push_back(&storages_[i]);
    }
    return result;
  }

  /// Returns the number of floating-point operations from the first event on; `all` is the number
  /// in the whole trace.
  double flops(double all) const { return all - (first_ == 0 ? 0 : events_[first_ - 1].flops); }

 private:
  const std::vector<TracedStorage>& storages_;
  std::vector<TraceEvent> events_;
  std::size_t first_ = 0;
  std::int64_t before_ = 0;
  std::vector<std::int64_t> live_;  // live bytes after each event, starting with the first
  std::optional<std::size_t> peak_;
};

}  // namespace stages
