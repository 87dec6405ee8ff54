#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

#include "runner/shared/error/diagnostic.h"
#include "runner/shared/error/log_level.h"
#include "runner/shared/error/stage_error.h"
#include "runner/shared/stage/run_context.h"

namespace runner {

/// The protocol between `retort` and `retort-worker`: one JSON object per line, each with a member
/// "event". Version, fields and order are documented in runner/shared/protocol/protocol.md. Any
/// change in meaning increments kProtocolVersion.
///
///   worker: hello
///   parent: request
///   worker: ready | diagnostic…, finished
///   parent: go {run folder}
///   worker: node_started, resumed, progress, metric, histogram, say, node_finished…, finished
///
///   worker: flush
///   parent: flushed
inline constexpr int kProtocolVersion = 1;

/// Identifies the sources from which both programs were built.
std::string_view build_id();

struct Hello {
  int protocol = 0;
  std::string build;
  nlohmann::ordered_json versions;
};  // first, always
struct Ready {
  std::string device;
  int threads = 0;
  nlohmann::ordered_json variables =
      nlohmann::ordered_json::object();  // environment variables set by the worker itself
};                                       // all stages have been created; the worker waits for `go`
struct Joined {
  std::string folder;
};  // sent by ranks other than 0: the rank has connected to rank 0 and writes to this folder
struct Reported {
  Diagnostic diagnostic;
};  // has no Location; the parent finds the location from the pointer
struct NodeStarted {
  std::string node;
};
struct NodeProgress {
  std::string node;
  Progress progress;
};
struct NodeMetric {
  std::string node;
  std::string name;
  double value = 0;
  std::int64_t step = 0;
};
struct NodeHistogram {
  std::string node;
  std::string name;
  std::vector<HistogramBucket> buckets;
  std::int64_t step = 0;
};
struct Said {
  std::string node;
  std::string line;
};
struct Logged {
  LogLevel level = LogLevel::kDebug;
  std::string node;  // empty: the worker as a whole
  std::string line;
};  // only for the log
struct NodeFinished {
  std::string node;
  double seconds = 0;
  std::int64_t peak_memory_bytes = 0;
};
struct Reused {
  std::string node;
  std::string run;  // the folder of the run that computed the results
};                  // the node's results, and the metrics that follow, come from an earlier run
struct Resumed {
  std::string node;
  std::int64_t metrics = 0;
  std::int64_t step = 0;
};  // the node continues after its first `metrics` metrics, and after `step`
struct Recovered {
  std::string node;
  Recovery recovery;
};  // the node continued after an incident, such as running out of memory
struct Stranded {
  std::string node;
  std::vector<std::string> to;  // "gpu" for another GPU, or "cpu"
  std::int64_t retries = 0;     // retries of a batch so far
  Diagnostic error;             // reported if none of these devices is available
  Recovery incident;            // its `from` and `to` are empty
};                              // the node cannot continue on this device and has saved its state
struct Flush {
  std::string node;  // the node that is about to save; empty if a node has finished
};                   // the worker waits for `flushed`: all earlier metrics are on disk
struct Item {
  nlohmann::ordered_json json;
};  // one of many results of a request, sent as soon as it is available
struct Answer {
  nlohmann::ordered_json json;
};  // the result of a request that is not a run
struct Finished {
  int exit = 0;
};  // last, always

using Event = std::variant<Hello, Ready, Joined, Reported, NodeStarted, Resumed, Reused,
                           NodeProgress, NodeMetric, NodeHistogram, Said, Logged, Recovered,
                           Stranded, Flush, NodeFinished, Item, Answer, Finished>;

/// Returns {"cause", "phase", "step", "tried", "taken", "limit", "from", "to"}.
nlohmann::ordered_json to_json(const Recovery& recovery);

/// Converts to and from [[left, right, count]]. buckets_from_json() throws std::runtime_error for
/// any other JSON.
nlohmann::ordered_json to_json(const std::vector<HistogramBucket>& buckets);
std::vector<HistogramBucket> buckets_from_json(const nlohmann::ordered_json& json);

/// Returns the event as one line, without the newline. NaN and infinities are sent as strings.
std::string to_line(const Event& event);

/// Parses a line; throws std::runtime_error if it is not an event.
Event event_from_line(std::string_view line);

}  // namespace runner
