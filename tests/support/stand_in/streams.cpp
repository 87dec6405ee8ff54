#include "tests/support/stand_in/streams.h"

#include <algorithm>
#include <utility>

#include <c10/util/Exception.h>

#include "tests/support/stand_in/counts.h"
#include "tests/support/stand_in/faults.h"
#include "tests/support/stand_in/graphs.h"

namespace stand_in {
namespace {

constexpr int kMostStreams = 1000, kPolls = 3, kLaunchFailure = 719;  // of cudaError_t

struct Event {
  Clock clock;
  int polls = 0;
};

void merge(Clock& into, const Clock& other) {
  for (const auto& [stream, number] : other) into[stream] = std::max(into[stream], number);
}

bool covers(const Clock& clock, const Work& work) {
  const auto found = clock.find(work.stream);
  return work.number == 0 || (found != clock.end() && found->second >= work.number);
}

/// Throws if an event waits for work of a lost GPU.
void require_all(const Event& event) {
  for (const auto& [stream, number] : event.clock)
    streams().require({c10::kCUDA, static_cast<c10::DeviceIndex>(stream / kMostStreams)});
}

thread_local std::map<int, c10::Stream> current_streams;  // by device

}  // namespace

int key_of(c10::Stream stream) {
  return stream.device_index() * kMostStreams + static_cast<int>(stream.id());
}

std::recursive_mutex& lock() {
  static std::recursive_mutex mutex;
  return mutex;
}

Streams& streams() {
  static auto* const all = new Streams;  // blocks and events outlive static objects
  return *all;
}

void Uses::add(const Work& work, bool writes) {
  const auto waits = [&](const auto& earlier) {
    return streams().is_before({earlier.first, earlier.second}, work.stream);
  };
  if (!std::ranges::all_of(written_, waits) || (writes && !std::ranges::all_of(read_, waits)))
    report("a stream uses memory without waiting for the work of another stream on it");
  if (writes) {
    written_ = {{work.stream, work.number}};
    read_.clear();
  } else {
    read_[work.stream] = work.number;
  }
}

void Uses::add(const Uses& other) {
  merge(written_, other.written_);
  merge(read_, other.read_);
}

bool Uses::are_before(int stream, const std::vector<int>& others) const {
  const auto is_before = [&](const auto& use) {
    return streams().is_before({use.first, use.second}, stream) ||
           std::ranges::count(others, use.first) > 0;
  };
  return std::ranges::all_of(written_, is_before) && std::ranges::all_of(read_, is_before);
}

c10::Stream Streams::current(c10::Device device) const {
  const auto found = current_streams.find(device.index());
  return found == current_streams.end() ? c10::Stream(c10::Stream::DEFAULT, device) : found->second;
}

c10::Stream Streams::exchange(c10::Stream stream) {
  const c10::Stream before = current(stream.device());
  current_streams.insert_or_assign(stream.device_index(), stream);
  return before;
}

c10::Stream Streams::new_stream(c10::Device device) {
  const std::lock_guard guard(lock());
  streams_made_ = streams_made_ % (kMostStreams - 1) + 1;
  return c10::Stream(c10::Stream::UNSAFE, device, streams_made_);
}

Work Streams::launch(c10::Device device, const std::string& operation) {
  const std::lock_guard guard(lock());
  if (const auto left = until_loss_.find(device.index()); left != until_loss_.end()) {
    if (left->second > 0) --left->second;
    else ++launches_after_loss_;
  }
  require(device);
  const int stream = key_of(current(device));
  if (recording()) return {stream, 0};
  Clock& clock = clocks_[stream];
  merge(clock, host_);
  count_launch(operation);
  polls_[stream] = 0;
  return {stream, ++clock[stream]};
}

Work Streams::latest(c10::Stream stream) const {
  const std::lock_guard guard(lock());
  const int key = key_of(stream);
  Clock clock = all_of(key);
  return {key, clock[key]};
}

void Streams::record(void** event, c10::Stream stream) {
  const std::lock_guard guard(lock());
  require(stream.device());
  if (!*event) *event = new Event;
  *static_cast<Event*>(*event) = {all_of(key_of(stream))};
}

void Streams::wait(void* event, c10::Stream stream) {
  const std::lock_guard guard(lock());
  if (event) merge(clocks_[key_of(stream)], static_cast<Event*>(event)->clock);
}

bool Streams::has_finished(void* event) {
  const std::lock_guard guard(lock());
  auto* const one = static_cast<Event*>(event);
  if (!one) return true;
  require_all(*one);
  const bool is_known = std::ranges::all_of(one->clock, [&](const auto& work) {
    return covers(host_, {work.first, work.second});
  });
  if (!is_known && one->polls++ < kPolls) return false;
  finish(one->clock);
  return true;
}

void Streams::synchronize(void* event) {
  const std::lock_guard guard(lock());
  if (!event) return;
  require_all(*static_cast<Event*>(event));
  finish(static_cast<Event*>(event)->clock);
}

void Streams::destroy(void* event) { delete static_cast<Event*>(event); }

bool Streams::has_finished(c10::Stream stream) {
  const std::lock_guard guard(lock());
  const Clock clock = all_of(key_of(stream));
  const bool is_known = std::ranges::all_of(clock, [&](const auto& work) {
    return covers(host_, {work.first, work.second});
  });
  if (!is_known && polls_[key_of(stream)]++ < kPolls) return false;
  finish(clock);
  return true;
}

void Streams::synchronize(c10::Stream stream) {
  const std::lock_guard guard(lock());
  require(stream.device());
  finish(all_of(key_of(stream)));
}

void Streams::synchronize(c10::Device device) {
  const std::lock_guard guard(lock());
  require(device);
  Clock all;
  for (const auto& [stream, clock] : clocks_) {
    if (stream / kMostStreams == device.index()) merge(all, clock);
  }
  finish(all);
}

void Streams::lose(c10::Device device, std::int64_t nth) {
  const std::lock_guard guard(lock());
  launches_after_loss_ = 0;
  if (nth > 0) until_loss_[device.index()] = nth;
  else until_loss_.erase(device.index());
}

std::int64_t Streams::launches_after_loss() const {
  const std::lock_guard guard(lock());
  return launches_after_loss_;
}

bool Streams::is_lost(c10::Device device) const {
  const std::lock_guard guard(lock());
  const auto left = until_loss_.find(device.index());
  return left != until_loss_.end() && left->second == 0;
}

void Streams::require(c10::Device device) {
  if (!is_lost(device)) return;
  throw c10::AcceleratorError({__func__, __FILE__, __LINE__}, kLaunchFailure,
                              "CUDA error: unspecified launch failure");
}

void Streams::when_finished(const Work& work, std::function<void()> task) {
  const std::lock_guard guard(lock());
  tasks_.push_back({work, std::move(task)});
}

bool Streams::is_before(const Work& work, int stream) const {
  const std::lock_guard guard(lock());
  const auto found = clocks_.find(stream);
  return covers(host_, work) || (found != clocks_.end() && covers(found->second, work));
}

void Streams::finish(const Clock& clock) {
  const bool waits = std::ranges::any_of(clock, [&](const auto& work) {
    return !covers(host_, {work.first, work.second});
  });
  if (!waits) return;
  merge(host_, clock);
  std::int64_t left = 0;
  for (const auto& [stream, known] : clocks_) {
    const auto own = known.find(stream);  // none if the stream has only waited
    left += own == known.end() ? 0 : own->second - host_[stream];
  }
  count_wait(left);
  std::vector<Task> finished;
  std::erase_if(tasks_, [&](Task& task) {
    if (!covers(host_, task.work)) return false;
    finished.push_back(std::move(task));
    return true;
  });
  for (const Task& task : finished) task.run();
}

Clock Streams::all_of(int stream) const {
  const auto found = clocks_.find(stream);
  return found == clocks_.end() ? Clock() : found->second;
}

}  // namespace stand_in
