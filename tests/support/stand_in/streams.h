#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <c10/core/Stream.h>

namespace stand_in {

/// One lock for all data of the stand-in. It is not held while a kernel runs.
std::recursive_mutex& lock();

/// A vector clock: the number of the last included work, by stream. Included work happens before
/// the next work of the clock's owner.
using Clock = std::map<int, std::int64_t>;

/// A piece of work: the `number`th of a stream.
struct Work {
  int stream = 0;
  std::int64_t number = 0;
};

/// The work that has used some memory.
class Uses {
 public:
  /// Notes that `work` reads or writes the memory. Reports a fault if it does not wait for earlier
  /// work on other streams that conflicts.
  void add(const Work& work, bool writes);

  /// Adds the uses of memory that is merged with this memory.
  void add(const Uses& other);

  /// True if each use happens before what `stream` does next, or was made by one of the streams
  /// `others`.
  bool are_before(int stream, const std::vector<int>& others) const;

 private:
  Clock written_, read_;
};

/// Kernels run when they are launched, but what they computed counts as unfinished until the host
/// has waited for it. So a missing wait is always detected, not only if a kernel is late:
///  - a copy to pinned memory arrives when the host waits; until then the memory holds garbage;
///  - memory from which a copy was begun must not change until the host waits;
///  - work that uses memory must wait for work on other streams that wrote it;
///  - memory must not be freed while other streams may use it, unless record_stream() named them.
/// A stream or an event reports three times that it has not finished, then that it has.
class Streams {
 public:
  c10::Stream current(c10::Device device) const;
  /// Returns the stream that was current on this thread.
  c10::Stream exchange(c10::Stream stream);
  c10::Stream new_stream(c10::Device device);

  /// Begins a piece of work of an operator on the current stream of `device`. The number is 0 if
  /// the stream only records it.
  Work launch(c10::Device device, const std::string& operation);
  /// Returns the work most recently queued on a stream.
  Work latest(c10::Stream stream) const;
  /// The streams' events. `event` is null before its first recording.
  void record(void** event, c10::Stream stream);
  void wait(void* event, c10::Stream stream);
  bool has_finished(void* event);
  void synchronize(void* event);
  static void destroy(void* event);
  /// For a stream; for all streams of a device.
  bool has_finished(c10::Stream stream);
  void synchronize(c10::Stream stream);
  void synchronize(c10::Device device);

  /// Makes a GPU fail at its `nth` launch from now (1: the next one), and at every later use, as
  /// after a fatal CUDA error: they throw c10::AcceleratorError. 0: it works again.
  void lose(c10::Device device, std::int64_t nth);
  /// Returns how many launches were attempted after the failed one.
  std::int64_t launches_after_loss() const;
  bool is_lost(c10::Device device) const;
  /// Throws if the GPU is lost.
  void require(c10::Device device);

  /// Calls `task` when the host has waited for `work`; the tasks of a stream are called in order.
  void when_finished(const Work& work, std::function<void()> task);
  /// True if `work` happens before what its stream does next; false while it may still run.
  bool is_before(const Work& work, int stream) const;

 private:
  struct Task {
    Work work;
    std::function<void()> run;
  };
  void finish(const Clock& clock);
  Clock all_of(int stream) const;

  std::map<int, Clock> clocks_;  // by stream
  Clock host_;
  std::map<int, int> polls_;
  std::vector<Task> tasks_;
  int streams_made_ = 0;
  std::map<int, std::int64_t> until_loss_;  // launches, by device; 0: it is lost
  std::int64_t launches_after_loss_ = 0;
};

Streams& streams();

/// Returns the number of a stream, as clocks have it.
int key_of(c10::Stream stream);

}  // namespace stand_in
