#include "runner/shared/record/metrics_file.h"

#include <algorithm>
#include <fstream>

#include <nlohmann/json.hpp>

#include "runner/shared/disk/descriptor.h"
#include "runner/shared/disk/line_file.h"
#include "runner/shared/value/json_fields.h"
#include "runner/shared/value/parse_json.h"

namespace runner {
using Json = nlohmann::ordered_json;

std::optional<MetricLine> metric_line(const std::string& text) {
  const Json json = parse_json<Json>(text);
  try {
    const JsonFields<Json> fields(json, "a metric");
    if (!fields.at("time").is_number()) return std::nullopt;
    return MetricLine{
        {fields.text("node"), fields.text("name"), fields.number("value"), fields.integer("step")},
        fields.number("time")};
  } catch (const std::runtime_error&) {
    return std::nullopt;
  }
}

MetricsFile MetricsFile::make(std::filesystem::path path, Storage& storage) {
  MetricsFile file(std::move(path), storage);
  file.file_.emplace(file.path_, storage);
  return file;
}

MetricsFile MetricsFile::reopen(std::filesystem::path path, Storage& storage) {
  MetricsFile file(std::move(path), storage);
  file.rewrite([](const MetricLine&) { return true; });
  return file;
}

void MetricsFile::append(const NodeMetric& metric, double seconds) {
  const Json line = {{"node", metric.node},
                     {"name", metric.name},
                     {"value", number_json(metric.value)},
                     {"step", metric.step},
                     {"time", seconds}};
  file_->append(line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

std::vector<MetricLine> MetricsFile::read() const { return read_metrics(path_).lines; }

std::vector<MetricLine> MetricsFile::rewind(std::string_view node, std::int64_t count) {
  std::vector<MetricLine> kept;
  rewrite([&](const MetricLine& line) {
    if (line.metric.node != node) return true;
    if (static_cast<std::int64_t>(kept.size()) >= count) return false;
    kept.push_back(line);
    return true;
  });
  return kept;
}

RecordedMetrics read_metrics(const std::filesystem::path& path) {
  RecordedMetrics metrics;
  std::ifstream file = open_regular(path);
  for (std::string text; std::getline(file, text);) {
    if (auto line = metric_line(text)) metrics.lines.push_back(*std::move(line));
    else if (!file.eof()) ++metrics.damaged;
  }
  return metrics;
}

double last_measured(const std::filesystem::path& path) {
  constexpr std::streamoff kEnd = 16 << 10;  // bytes: a few hundred lines
  std::ifstream file = open_regular(path, std::ios::binary | std::ios::ate);
  if (!file) return 0;
  const std::streamoff size = file.tellg();
  file.seekg(std::max<std::streamoff>(0, size - kEnd));
  double last = 0;
  for (std::string text; std::getline(file, text);)
    if (const auto line = metric_line(text)) last = std::max(last, line->time);
  return last;
}

/// Keeps only the lines that `keep` accepts.
void MetricsFile::rewrite(const std::function<bool(const MetricLine&)>& keep) {
  const auto is_kept = [&](const std::string& text) {
    const auto line = metric_line(text);
    return line && keep(*line);
  };
  file_.emplace(rewritten(path_, is_kept, *storage_));
}

}  // namespace runner
