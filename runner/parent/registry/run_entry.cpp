#include "runner/parent/registry/run_entry.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstring>
#include <set>
#include <thread>

#include <fcntl.h>
#include <nlohmann/json.hpp>

#include "runner/parent/config/yaml_reader.h"
#include "runner/parent/record/run_metrics.h"
#include "runner/parent/record/run_summary.h"
#include "runner/parent/report/main_metric.h"
#include "runner/shared/disk/file_digests.h"
#include "runner/shared/disk/folder_lock.h"
#include "runner/shared/disk/new_file.h"
#include "runner/shared/record/recorded_run.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/text/printable.h"
#include "runner/shared/text/units.h"
#include "runner/shared/value/parse_json.h"

namespace runner {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::size_t kLargestRunFile = 16 << 20;

RunValue run_value_of(const Value& value) {
  if (const auto* whole = std::get_if<std::int64_t>(&value.data))
    return static_cast<double>(*whole);
  if (const auto* number = std::get_if<double>(&value.data)) return *number;
  if (value.text()) return *value.text();
  const Json json = to_json(value);
  return json.is_string() ? json.get<std::string>()
                          : json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void collect_settings(const Value& value, const std::string& key,
                      std::vector<std::pair<std::string, RunValue>>& all) {
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
  if (!text) return;  // the run was killed before it started
  const Json json = parse_json<Json>(*text);
  const auto at = [&](const char* key) {
    return json.is_object() ? json.value(key, Json()) : Json();
  };
  if (!at("status").is_string()) {
    entry.problem = unreadable(path.filename());
    return;
  }
  entry.status = at("status");
  if (at("recipe").is_string()) entry.recipe = at("recipe");
  if (at("started").is_string()) entry.started = at("started");
  if (at("seconds").is_number()) entry.seconds = at("seconds");
  if (entry.status == name(RunStatus::kRunning))
    entry.seconds = worked_time(path.parent_path()).seconds;
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
  const auto end =
      std::to_chars(digits.data(), digits.data() + digits.size(), std::get<double>(value)).ptr;
  return {digits.data(), end};
}

double RunEntry::headline_value() const {
  const auto found =
      std::ranges::find(metrics, headline, [](const auto& one) { return one.first; });
  return found == metrics.end() ? std::nan("") : found->second;
}

std::string shown_number(double value) {
  constexpr double kExact = 1e15;  // every whole number below this is exact
  if (std::trunc(value) == value && std::abs(value) < kExact) return decimal(value, 0);
  std::array<char, 32> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value,
                                 std::chars_format::general, 6)
                       .ptr;
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
  Sources sources;  // holds the text during parsing; errors are not reported
  const auto text = real_file_system().read(run->recipe, kLargestRunFile);
  const auto recipe = text ? read_yaml(sources.add("", *text)) : Result<Value>(Diagnostic{});
  if (recipe) collect_settings(*recipe, "", entry.settings);
  else entry.problem = unreadable(run->recipe.lexically_relative(folder));
  if (!entry.problem.empty()) entry.status = "damaged";
  return entry;
}

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kLargestTags = 1 << 20;
constexpr std::size_t kLongestTag = 120;

bool is_tag(const std::string& text) {
  const auto is_part = [](unsigned char c) {
    return std::isalnum(c) || c == '.' || c == '_' || c == '-';
  };
  return !text.empty() && text.size() <= kLongestTag && text[0] != '.' &&
         std::ranges::all_of(text, is_part);
}

/// Locks the folder itself, since a run in progress holds the lock in its record. False if another
/// process keeps the folder locked.
bool wait_for_lock(const Descriptor& folder) {
  using namespace std::chrono_literals;
  for (int tries = 0; tries < 100; ++tries) {
    if (try_lock(folder) || errno != EWOULDBLOCK)
      return true;  // on a file system without locks, no process can hold the folder
    std::this_thread::sleep_for(20ms);
  }
  return false;
}

}  // namespace

Result<std::vector<std::string>> read_tags(const std::filesystem::path& folder) {
  const std::filesystem::path path = RunLayout(folder).tags();
  std::error_code error;
  if (!std::filesystem::exists(std::filesystem::symlink_status(path, error)))
    return std::vector<std::string>();
  const auto text = real_file_system().read(path, kLargestTags);
  const Json json = text ? parse_json<Json>(*text) : Json();
  const Json tags =
      json.is_object() && json.value("schema", Json()) == 1 ? json.value("tags", Json()) : Json();
  std::set<std::string> read;
  bool is_whole = tags.is_array();
  for (const Json& tag : is_whole ? tags : Json::array()) {
    if (tag.is_string() && is_tag(tag)) read.insert(tag.get<std::string>());
    else is_whole = false;
  }
  if (is_whole) return std::vector<std::string>(read.begin(), read.end());
  return Diagnostic{ErrorCode::kDamagedRecord,
                    {},
                    "",
                    "the tags in '" + path.string() + "' cannot be read",
                    "remove the file and tag the run again"};
}

Result<std::vector<std::string>> change_tags(const std::filesystem::path& folder,
                                             std::span<const std::string> added,
                                             std::span<const std::string> removed,
                                             Storage& storage) {
  for (const std::span<const std::string> all : {added, removed}) {
    for (const std::string& tag : all) {
      if (is_tag(tag)) continue;
      return Diagnostic{ErrorCode::kUsage,
                        {},
                        "",
                        "'" + printable_ascii(tag) + "' is not a valid tag",
                        "use at most 120 letters, digits, '.', '_' and '-', with no leading dot"};
    }
  }
  const Descriptor opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened.is_open()) throw WriteError(write_diagnostic(folder, errno, ErrorCode::kCannotWrite));
  if (!wait_for_lock(opened)) {
    return Diagnostic{ErrorCode::kRunBusy,
                      {},
                      "",
                      "another process is changing the tags of '" + folder.string() + "'",
                      "try again once it has finished"};
  }
  const auto before = read_tags(folder);
  if (!before) return before.errors();
  std::set<std::string> tags(before->begin(), before->end());
  tags.insert(added.begin(), added.end());
  for (const std::string& tag : removed) tags.erase(tag);
  std::vector<std::string> after(tags.begin(), tags.end());
  if (after != *before) {
    write_atomically(RunLayout(folder).tags(), Json{{"schema", 1}, {"tags", after}}.dump(2) + "\n",
                     storage);
  }
  return after;
}

}  // namespace runner
