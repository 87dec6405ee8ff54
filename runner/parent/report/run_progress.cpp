#include "runner/parent/report/run_progress.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <map>
#include <sstream>

#include <nlohmann/json.hpp>

#include "runner/shared/disk/descriptor.h"
#include "runner/shared/record/recorded_run.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/text/printable.h"
#include "runner/shared/value/json_fields.h"
#include "runner/shared/value/parse_json.h"

namespace runner {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::int64_t kTail = 64 << 10;  // bytes read from the end of metrics.jsonl: a few hundred
                                          // measurements

Json json_in(const fs::path& path) {
  std::ifstream file = open_regular(path, std::ios::binary);
  return parse_json<Json>(file);
}

/// Returns the number at `pointer`; 0 if there is none.
double number_at(const Json& json, const char* pointer) {
  const Json::json_pointer place(pointer);
  return json.is_object() && json.contains(place) && json[place].is_number()
             ? json[place].get<double>()
             : 0;
}

/// The contents of the last part of metrics.jsonl.
struct Tail {
  std::string node;
  std::int64_t step = 0;
  // When the last metric was measured, and when the last epoch ended, in seconds since the start.
  double time = 0, epoch_time = 0;
  std::map<std::string, double> values;  // by name
};

Tail tail_of(const fs::path& path) {
  Tail tail;
  std::ifstream file = open_regular(path, std::ios::binary | std::ios::ate);
  if (!file) return tail;
  const std::int64_t size = file.tellg();
  file.seekg(std::max<std::int64_t>(0, size - kTail));
  std::string line;
  if (size > kTail) std::getline(file, line);  // skip an incomplete line
  while (std::getline(file, line) && !file.eof()) {
    const Json json = parse_json<Json>(line);
    if (!json.is_object() || !json.contains("node") || !json["node"].is_string() ||
        !json.contains("name") || !json["name"].is_string() || !json.contains("value"))
      continue;
    const auto value = number_from_json(json["value"]);
    if (!value) continue;
    const std::string name = json["name"];
    tail.node = json["node"];
    tail.step = static_cast<std::int64_t>(number_at(json, "/step"));
    tail.time = number_at(json, "/time");
    if (name == "train/epoch_loss") tail.epoch_time = tail.time;
    tail.values[name] = *value;
  }
  return tail;
}

/// Returns the planned epochs of a training node; 0 for other nodes.
std::int64_t planned_epochs(const fs::path& run, const std::string& node) {
  const Json graph = json_in(RunLayout(run).records() / RunRecord::kGraph);
  if (!graph.is_object() || !graph.contains("nodes") || !graph["nodes"].is_array()) return 0;
  for (const Json& one : graph["nodes"])
    if (one.is_object() && one.contains("id") && one["id"] == node)
      return static_cast<std::int64_t>(number_at(one, "/options/epochs"));
  return 0;
}

void choose_metric(const Tail& tail, RunProgress& progress) {
  constexpr std::array<std::string_view, 8> kWanted = {"evaluate/top1",
                                                       "evaluate/episode_accuracy",
                                                       "evaluate/mean_average_precision",
                                                       "validation/accuracy",
                                                       "validation/mean_average_precision",
                                                       "validation/loss",
                                                       "train/epoch_loss",
                                                       "train/loss"};
  for (const std::string_view wanted : kWanted) {
    const auto found = tail.values.find(std::string(wanted));
    if (found == tail.values.end()) continue;
    progress.metric = found->first;
    progress.value = found->second;
    return;
  }
}

void follow_training(const fs::path& run, const Tail& tail, RunProgress& progress) {
  progress.epochs = planned_epochs(run, tail.node);
  if (progress.epochs == 0) return;
  const Json history = json_in(RunLayout(run).node(tail.node).training_metrics());
  double seconds = 0;
  std::int64_t done = 0;
  if (history.is_object() && history.contains("epoch_times") && history["epoch_times"].is_array()) {
    for (const Json& one : history["epoch_times"])
      if (one.is_number()) seconds += one.get<double>(), ++done;
  }
  progress.epoch = std::min(done + 1, progress.epochs);
  if (done == 0 || progress.status != "running") return;
  const double of_this = tail.epoch_time > 0 ? tail.time - tail.epoch_time : 0;
  progress.seconds_left = std::max(
      0.0,
      static_cast<double>(progress.epochs - done) * seconds / static_cast<double>(done) - of_this);
}

double seconds_since(const fs::path& file) {
  std::error_code error;
  const auto written = fs::last_write_time(file, error);
  if (error) return 0;
  return std::max(
      0.0, std::chrono::duration<double>(fs::file_time_type::clock::now() - written).count());
}

}  // namespace

RunProgress run_progress(const fs::path& run) {
  RunProgress progress;
  const RunLayout layout(run);
  const Json summary = json_in(layout.summary());
  if (!summary.is_object()) return progress;
  progress.status = status_now(run, summary.value("status", ""));
  const Tail tail = tail_of(layout.metrics());
  progress.node = tail.node;
  progress.step = tail.step;
  if (const auto peak = tail.values.find("memory/peak"); peak != tail.values.end())
    progress.memory_bytes = static_cast<std::int64_t>(peak->second);
  choose_metric(tail, progress);
  if (!tail.node.empty()) follow_training(run, tail, progress);
  if (progress.status == "running") progress.silent_seconds = seconds_since(layout.metrics());
  return progress;
}

void LiveText::draw(const std::string& text, std::size_t width) {
  std::string all;
  int count = 0;
  std::istringstream lines(text);
  // One column stays free, because a full line makes some terminals wrap.
  const std::size_t most = std::max<std::size_t>(width, 2) - 1;
  for (std::string line; std::getline(lines, line); ++count) all += cut_to_width(line, most) + "\n";
  clear();
  out_ << all << std::flush;
  lines_ = count;
}

void LiveText::clear() {
  if (lines_ > 0) out_ << "\r\x1b[" << lines_ << "A\x1b[J" << std::flush;
  lines_ = 0;
}

}  // namespace runner
