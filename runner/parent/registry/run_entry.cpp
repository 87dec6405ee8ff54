#include "runner/parent/registry/run_entry.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include <nlohmann/json.hpp>

#include "runner/parent/config/yaml_reader.h"
#include "runner/shared/disk/file_system.h"
#include "runner/shared/record/recorded_run.h"
#include "runner/parent/record/run_metrics.h"
#include "runner/parent/record/run_summary.h"
#include "runner/parent/registry/run_tags.h"
#include "runner/parent/report/main_metric.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/text/decimal.h"
#include "runner/shared/value/parse_json.h"

namespace runner {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::size_t kLargestRunFile = 16 << 20;

RunValue run_value_of(const Value& value) {
  if (const auto* whole = std::get_if<std::int64_t>(&value.data)) return static_cast<double>(*whole);
  if (const auto* number = std::get_if<double>(&value.data)) return *number;
  if (value.text() && value.secret_as.empty()) return *value.text();
  const Json json = to_json(value);
  return json.is_string() ? json.get<std::string>() : json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void collect_settings(const Value& value, const std::string& key, std::vector<std::pair<std::string, RunValue>>& all) {
  if (!value.map() || value.map()->empty()) {
    all.emplace_back(key, run_value_of(value));
    return;
  }
  for (const Entry& entry : *value.map())
    collect_settings(entry.value, key.empty() ? entry.key : key + "." + entry.key, all);
}

std::string headline_of(const std::vector<std::pair<std::string, double>>& metrics) {
  std::vector<std::string> names;
  for (const auto& [name, value] : metrics) names.push_back(name);
  return main_metric(names);
}

std::string unreadable(const fs::path& file) { return "'" + file.string() + "' cannot be read"; }

void read_summary(const fs::path& path, RunEntry& entry) {
  const auto text = real_file_system().read(path, kLargestRunFile);
  if (!text) return;  // it was killed before it began
  const Json json = parse_json<Json>(*text);
  const auto at = [&](const char* key) { return json.is_object() ? json.value(key, Json()) : Json(); };
  if (!at("status").is_string()) {
    entry.problem = unreadable(path.filename());
    return;
  }
  entry.status = at("status");
  if (at("recipe").is_string()) entry.recipe = at("recipe");
  if (at("started").is_string()) entry.started = at("started");
  if (at("seconds").is_number()) entry.seconds = at("seconds");
  if (entry.status == name(RunStatus::kRunning)) entry.seconds = worked_time(path.parent_path()).seconds;
  entry.smoke = at("smoke") == true;
  RunMetrics metrics = run_metrics(json);
  const auto values = metrics.values();
  entry.metrics.assign(values.begin(), values.end());
  entry.trained_by = std::move(metrics.trained_by);
  if (values.contains(metrics.monitor)) entry.monitor = std::move(metrics.monitor);
  entry.headline = headline_of(entry.metrics);
}

}  // namespace

std::string run_value_text(const RunValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  std::array<char, 32> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), std::get<double>(value)).ptr;
  return {digits.data(), end};
}

std::string shown_number(double value) {
  constexpr double kExact = 1e15;  // below it every whole number is its own
  if (std::trunc(value) == value && std::abs(value) < kExact) return decimal(value, 0);
  std::array<char, 32> digits;
  const auto end =
      std::to_chars(digits.data(), digits.data() + digits.size(), value, std::chars_format::general, 6).ptr;
  return {digits.data(), end};
}

RunEntry read_entry(const fs::path& folder) {
  RunEntry entry;
  const RunLayout layout(folder);
  read_summary(layout.summary(), entry);
  auto tags = read_tags(folder);
  if (tags) entry.tags = *std::move(tags);
  else entry.problem = unreadable(layout.tags().filename());
  const auto run = read_run(folder);
  if (!run) {
    const bool was_killed = entry.problem.empty() && entry.status.empty();
    entry.problem = entry.problem.empty() ? run.errors().front().message : entry.problem;
    entry.status = was_killed ? "incomplete" : "damaged";
    return entry;
  }
  entry.device = run->device;
  entry.source = run->source;
  Sources sources;  // of a text whose mistakes nobody is told
  const auto text = real_file_system().read(run->recipe, kLargestRunFile);
  const auto recipe = text ? read_yaml(sources.add("", *text)) : Result<Value>(Diagnostic{});
  if (recipe) collect_settings(*recipe, "", entry.settings);
  else entry.problem = unreadable(run->recipe.lexically_relative(folder));
  if (!entry.problem.empty()) entry.status = "damaged";
  return entry;
}

}  // namespace runner
