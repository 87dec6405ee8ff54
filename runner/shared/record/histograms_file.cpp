#include "runner/shared/record/histograms_file.h"

#include <fstream>

#include <nlohmann/json.hpp>

#include "runner/shared/disk/descriptor.h"
#include "runner/shared/disk/line_file.h"
#include "runner/shared/value/json_fields.h"
#include "runner/shared/value/parse_json.h"

namespace runner {

using Json = nlohmann::ordered_json;

std::optional<HistogramLine> histogram_line(const std::string& text) {
  const Json json = parse_json<Json>(text);
  try {
    const JsonFields<Json> fields(json, "a histogram");
    return HistogramLine{{fields.text("node"), fields.text("name"),
                          buckets_from_json(fields.list("buckets")), fields.integer("step")},
                         fields.number("time")};
  } catch (const std::runtime_error&) {
    return std::nullopt;
  }
}

HistogramsFile::HistogramsFile(std::filesystem::path path, Storage& storage)
    : path_(std::move(path)), storage_(&storage) {
  if (!open_regular(path_)) return;
  file_.emplace(rewritten(
      path_, [](const std::string& text) { return histogram_line(text).has_value(); }, storage));
}

void HistogramsFile::append(const NodeHistogram& histogram, double seconds) {
  if (!file_) file_.emplace(path_, *storage_);
  const Json line = {{"node", histogram.node},
                     {"name", histogram.name},
                     {"buckets", to_json(histogram.buckets)},
                     {"step", histogram.step},
                     {"time", seconds}};
  file_->append(line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

void HistogramsFile::sync() {
  if (file_) file_->sync();
}

void HistogramsFile::rewind(std::string_view node, std::int64_t step) {
  if (!file_) return;
  const auto is_kept = [&](const std::string& text) {
    const auto line = histogram_line(text);
    return line && (line->histogram.node != node || line->histogram.step <= step);
  };
  file_.emplace(rewritten(path_, is_kept, *storage_));
}

std::vector<HistogramLine> read_histograms(const std::filesystem::path& path) {
  std::vector<HistogramLine> lines;
  std::ifstream file = open_regular(path);
  for (std::string text; std::getline(file, text);)
    if (auto line = histogram_line(text)) lines.push_back(*std::move(line));
  return lines;
}

}  // namespace runner
