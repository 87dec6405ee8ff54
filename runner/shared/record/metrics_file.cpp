#include "runner/shared/record/metrics_file.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <system_error>

#include <nlohmann/json.hpp>

#include "runner/shared/disk/descriptor.h"
#include "runner/shared/disk/line_file.h"
#include "runner/shared/value/json_fields.h"
#include "runner/shared/value/parse_json.h"

namespace runner {
using Json = nlohmann::ordered_json;

namespace {

/// Reads a line from left to right. Each function returns false, for any reason, if the rest of the
/// line does not begin with what it reads.
class PlainLine {
 public:
  explicit PlainLine(std::string_view line) : rest_(line) {}

  bool skip(std::string_view text) {
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }
  /// Reads up to the quote at the end; no escapes, and only ASCII.
  bool text(std::string& value) {
    const auto is_plain = [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; };
    const auto end = std::ranges::find_if_not(rest_, is_plain);
    value.assign(rest_.begin(), end);
    rest_.remove_prefix(value.size());
    return skip("\"");
  }
  bool integer(std::int64_t& value) {
    return length_of_number(/*is_whole=*/true) > 0 && converted(value);
  }
  bool number(double& value) {
    const std::size_t length = length_of_number(/*is_whole=*/false);
    return length > 0 && rest_.substr(0, length) != "-0" && converted(value);
  }
  bool is_at_end() const { return rest_.empty(); }

 private:
  std::size_t digits_at(std::size_t place) const {
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    const std::string_view digits = rest_.substr(std::min(place, rest_.size()));
    return static_cast<std::size_t>(std::ranges::find_if_not(digits, is_digit) - digits.begin());
  }
  bool has_at(std::size_t place, std::string_view any) const {
    return place < rest_.size() && any.find(rest_[place]) != any.npos;
  }

  /// Returns the length of the JSON number at the beginning; 0 if there is none. std::from_chars()
  /// also accepts other numbers, such as "01", "1." and "inf".
  std::size_t length_of_number(bool is_whole) const {
    std::size_t end = has_at(0, "-");
    const std::size_t whole = digits_at(end);
    if (whole == 0 || (whole > 1 && rest_[end] == '0')) return 0;
    end += whole;
    if (is_whole) return has_at(end, ".eE") ? 0 : end;
    if (has_at(end, ".")) {
      const std::size_t digits = digits_at(end + 1);
      if (digits == 0) return 0;
      end += 1 + digits;
    }
    if (has_at(end, "eE")) {
      end += 1 + has_at(end + 1, "+-");
      const std::size_t digits = digits_at(end);
      if (digits == 0) return 0;
      end += digits;
    }
    return end;
  }

  template <typename Number>
  bool converted(Number& value) {
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return error == std::errc();
  }

  std::string_view rest_;
};

/// Parses a line exactly as append() writes it, which takes a tenth of the time of a JSON parser.
/// nullopt for any other line, which may still be a metric: NaN, names with escapes, other spacing.
std::optional<MetricLine> plain_metric_line(std::string_view text) {
  MetricLine result;
  auto& [metric, time] = result;
  PlainLine line(text);
  const bool is_plain = line.skip(R"({"node":")") && line.text(metric.node) &&
                        line.skip(R"(,"name":")") && line.text(metric.name) &&
                        line.skip(R"(,"value":)") && line.number(metric.value) &&
                        line.skip(R"(,"step":)") && line.integer(metric.step) &&
                        line.skip(R"(,"time":)") && line.number(time) && line.skip("}");
  return is_plain && line.is_at_end() ? std::optional(std::move(result)) : std::nullopt;
}

std::optional<MetricLine> json_metric_line(const std::string& text) {
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

}  // namespace

std::optional<MetricLine> metric_line(const std::string& text) {
  auto plain = plain_metric_line(text);
  return plain ? plain : json_metric_line(text);
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
