#include "runner/parent/record/tensorboard_log.h"

#include <nlohmann/json.hpp>

#include "runner/parent/record/record_text.h"
#include "runner/parent/record/recorded_example.h"
#include "runner/parent/record/run_metrics.h"
#include "runner/parent/record/run_summary.h"
#include "runner/parent/record/summary_value.h"
#include "runner/shared/record/histograms_file.h"
#include "runner/shared/record/metrics_file.h"
#include "runner/shared/record/recorded_run.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/text/join.h"
#include "runner/shared/text/markdown_text.h"
#include "runner/shared/text/units.h"
#include "runner/shared/value/json_fields.h"
#include "runner/shared/value/parse_json.h"

namespace runner {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

std::string text_in(const Json& json, const char* key) {
  const auto found = json.is_object() ? json.find(key) : json.end();
  return json.is_object() && found != json.end() && found->is_string() ? found->get<std::string>()
                                                                       : "";
}

/// Returns the summary as Markdown: how the run ended, its errors, and its last metrics.
std::string summary_text(const Json& summary) {
  const double seconds = number_from_json(summary.value("seconds", Json())).value_or(0);
  std::string text = "**" + markdown_text(text_in(summary, "recipe")) +
                     "**: " + markdown_text(text_in(summary, "status")) + " after " +
                     duration_text(seconds) + ", started " +
                     markdown_text(text_in(summary, "started")) + "\n";
  for (const Json& one : summary.value("diagnostics", Json::array()))
    text += "\n- " + markdown_text(text_in(one, "severity")) + ": " +
            markdown_text(text_in(one, "message"));
  text += "\n\n| node | metric | value | step |\n|---|---|---:|---:|\n";
  for (const auto& [node, metrics] : run_metrics(summary).nodes)
    for (const auto& [name, one] : metrics)
      text += "| " + markdown_text(node) + " | " + markdown_text(name) + " | " +
              number_json(one.value).dump() + " | " + std::to_string(one.step) + " |\n";
  return text;
}

}  // namespace

EventFile& TensorBoardLog::file_of(const std::string& node, double time) {
  const auto found = files_.find(node);
  if (found != files_.end()) return found->second;
  const fs::path below = node.empty() ? folder_ : folder_ / node;
  make_folders(below, *storage_);
  return files_.emplace(node, EventFile(below, time, *storage_)).first->second;
}

std::vector<std::string> TensorBoardLog::files() const {
  std::vector<std::string> names;
  for (const auto& [node, file] : files_)
    names.push_back(file.path().lexically_relative(folder_).string());
  return names;
}

void TensorBoardLog::metric(const NodeMetric& metric, double time) {
  file_of(metric.node, time).add(scalar_value(metric.name, metric.value), metric.step, time);
}

void TensorBoardLog::histogram(const NodeHistogram& histogram, double time) {
  file_of(histogram.node, time)
      .add(histogram_value(histogram.name, histogram.buckets), histogram.step, time);
}

void TensorBoardLog::examples(const std::string& node, const fs::path& folder, double time) {
  std::map<std::string, int> counts;
  for (const RecordedExample& one : recorded_examples(folder)) {
    const std::string tag =
        (one.group.empty() ? "examples" : one.group) + "/" + std::to_string(++counts[one.group]);
    std::vector<std::string> lines;
    for (const std::string& line : one.lines) lines.push_back(markdown_text(line));
    file_of(node, time).add(image_value(tag, one.jpeg, join(lines, "  \n")), 0, time);
  }
}

void TensorBoardLog::restart(const std::string& node, std::int64_t step, double time) {
  file_of(node, time).restart(step, time);
}

void TensorBoardLog::begin(const Hparams& options, std::string_view recipe, double time) {
  remove_event_files(folder_);
  EventFile& file = file_of("", time);
  file.add(session_start_value(options, time), 0, time);
  file.add(text_value("recipe", markdown_code(recipe)), 0, time);
}

void TensorBoardLog::end(const Json& summary, double time) {
  EventFile& file = file_of("", time);
  file.add(text_value("summary", summary_text(summary)), 0, time);
  const std::string status = text_in(summary, "status");
  // An interrupted run continues when it is resumed.
  if (status == "interrupted" || status == "running") return;
  file.add(session_end_value(status == "finished", time), 0, time);
}

namespace {

/// A node name in a damaged record could be a path that leads elsewhere.
bool is_file_name(const std::string& node) {
  return !node.empty() && node != "." && node != ".." && node.find('/') == std::string::npos;
}

/// Writes the data that concerns the run in `run` as a whole.
void write_whole_run(const fs::path& run, const std::optional<Hparams>& options, double start,
                     TensorBoardLog& log) {
  const auto record = read_run(run);
  const fs::path recipe = record ? record->recipe : RunLayout(run).records() / RunRecord::kRecipe;
  log.begin(options ? *options : overridden_options(run, record_from_yaml(recipe)),
            record_text(recipe), start);
  Json summary = parse_json<Json>(record_text(RunLayout(run).summary()));
  if (!summary.is_object()) return;
  summary["status"] = status_now(run, text_in(summary, "status"));
  log.end(summary, start + number_from_json(summary.value("seconds", Json())).value_or(0));
}

}  // namespace

std::vector<std::string> write_tensorboard(const fs::path& run, const fs::path& folder,
                                           const std::optional<Hparams>& options) {
  const double start = started_at(run);
  const RunLayout layout(run);
  TensorBoardLog log(folder);
  std::map<std::string, double> ends;
  for (const auto& [metric, seconds] : read_metrics(layout.metrics()).lines) {
    if (!is_file_name(metric.node)) continue;
    log.metric(metric, start + seconds);
    ends[metric.node] = start + seconds;
  }
  if (ends.empty()) return {};
  for (const auto& [histogram, seconds] : read_histograms(layout.histograms()))
    if (is_file_name(histogram.node)) log.histogram(histogram, start + seconds);
  for (const auto& [node, time] : ends) log.examples(node, layout.node(node).folder(), time);
  write_whole_run(run, options, start, log);
  return log.files();
}

}  // namespace runner
