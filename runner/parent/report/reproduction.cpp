#include "runner/parent/report/reproduction.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include <nlohmann/json.hpp>

#include "runner/shared/disk/digest.h"
#include "runner/shared/disk/file_digests.h"
#include "runner/shared/record/metrics_file.h"
#include "runner/shared/record/node_index.h"
#include "runner/shared/stage/checkpoint_files.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/text/csv.h"
#include "runner/shared/text/join.h"
#include "runner/shared/value/json_fields.h"
#include "runner/shared/value/parse_json.h"

namespace runner {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::size_t kShownFiles = 5;
constexpr std::array<const char*, 2> kPointers = {kBestCheckpoint, kLatestCheckpoint};

/// The metrics of each node in the order of measurement, with their positions in the file.
struct Measured {
  std::size_t place = 0;
  NodeMetric metric;
};

std::map<std::string, std::vector<Measured>> measured_by_node(const fs::path& run) {
  std::map<std::string, std::vector<Measured>> nodes;
  std::size_t place = 0;
  for (MetricLine& line : read_metrics(RunLayout(run).metrics()).lines) {
    ++place;
    // A process's memory use depends on what else the process has done.
    if (line.metric.name.starts_with("memory/")) continue;
    nodes[line.metric.node].push_back({place, std::move(line.metric)});
  }
  return nodes;
}

bool is_same_number(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

double relative_difference(double a, double b) {
  if (is_same_number(a, b)) return 0;
  if (!std::isfinite(a) || !std::isfinite(b)) return std::numeric_limits<double>::infinity();
  return std::abs(a - b) / std::max(std::abs(a), std::abs(b));
}

/// Returns the differences between two nodes' metrics, with their positions. Stops after a metric
/// that only one of the nodes has.
std::vector<std::pair<std::size_t, MetricDifference>> differences_of(
    const std::vector<Measured>& before, const std::vector<Measured>& now) {
  std::vector<std::pair<std::size_t, MetricDifference>> found;
  for (std::size_t i = 0; i < std::max(before.size(), now.size()); ++i) {
    const Measured* was = i < before.size() ? &before[i] : nullptr;
    const Measured* is = i < now.size() ? &now[i] : nullptr;
    const bool is_same =
        was && is && was->metric.name == is->metric.name && was->metric.step == is->metric.step;
    const Measured& named = was ? *was : *is;
    MetricDifference one{
        .node = named.metric.node, .metric = named.metric.name, .step = named.metric.step};
    if (was) one.before = was->metric.value;
    if (is && (is_same || !was)) one.now = is->metric.value;
    one.relative = is_same ? relative_difference(*one.before, *one.now)
                           : std::numeric_limits<double>::infinity();
    if (one.relative > 0) found.emplace_back(named.place, std::move(one));
    if (!is_same) break;
  }
  return found;
}

void compare_metrics(const fs::path& before, const fs::path& now, Reproduction& result) {
  const auto old_nodes = measured_by_node(before), nodes = measured_by_node(now);
  std::set<std::string> names;
  for (const auto* one : {&old_nodes, &nodes})
    for (const auto& [node, metrics] : *one) names.insert(node);
  std::vector<std::pair<std::size_t, MetricDifference>> all;
  for (const std::string& node : names) {
    const auto was = old_nodes.find(node), is = nodes.find(node);
    const std::vector<Measured> none;
    const auto& old_metrics = was == old_nodes.end() ? none : was->second;
    const auto& metrics = is == nodes.end() ? none : is->second;
    result.metrics += std::max(old_metrics.size(), metrics.size());
    std::ranges::move(differences_of(old_metrics, metrics), std::back_inserter(all));
  }
  if (all.empty()) return;
  std::ranges::stable_sort(all, {}, &std::pair<std::size_t, MetricDifference>::first);
  result.first = all.front().second;
  result.largest = std::ranges::max_element(all, {}, [](const auto& one) {
                     return one.second.relative;
                   })->second;
}

/// Returns the result files of a run, by display name. For checkpoints, includes only the weights
/// that a pointer such as "best" refers to.
std::map<std::string, fs::path> results_of(const fs::path& run) {
  std::map<std::string, fs::path> files;
  std::error_code error;
  for (fs::directory_iterator at(RunLayout(run).nodes(), error), end; !error && at != end;
       at.increment(error)) {
    const std::string node = at->path().filename().string();
    const NodeLayout layout(at->path());
    std::error_code gone;
    if (!at->is_directory(gone)) continue;
    for (const NodeFile& file : node_files(at->path())) {
      const fs::path path = at->path() / file.name;
      const bool is_of_checkpoint =
          file.name.starts_with(layout.checkpoints().filename().string() + "/");
      if (!is_of_checkpoint && path != layout.plan() && path != layout.training_metrics() &&
          path != layout.division())
        files[node + "/" + file.name] = path;
    }
    for (const char* pointer : kPointers) {
      const auto checkpoint = pointed_to(layout.checkpoints() / pointer);
      if (checkpoint)
        files[node + "/checkpoints/" + pointer + "/" + kCheckpointModel] =
            layout.checkpoints() / to_text(*checkpoint) / kCheckpointModel;
    }
  }
  return files;
}

/// Returns the digest of a file; empty if it cannot be read.
std::string digest_of_result(const fs::path& file) {
  Digest digest;
  return digest.update_from(file) == 0 ? digest.finish() : "";
}

void compare_results(const fs::path& before, const fs::path& now, Reproduction& result) {
  const auto old_files = results_of(before), files = results_of(now);
  std::set<std::string> names;
  for (const auto* one : {&old_files, &files})
    for (const auto& [file, path] : *one) names.insert(file);
  result.files = names.size();
  for (const std::string& file : names) {
    const auto was = old_files.find(file), is = files.find(file);
    const bool are_there = was != old_files.end() && is != files.end();
    const std::string digest = are_there ? digest_of_result(was->second) : "";
    if (digest.empty() || digest != digest_of_result(is->second))
      result.other_files.push_back(file);
  }
}

/// Returns how a node's steps were computed; null if that is not recorded.
Json step_of_plan(const fs::path& run, const std::string& node) {
  const auto text = real_file_system().read(RunLayout(run).node(node).plan(), 16 << 20);
  const Json plan = text ? parse_json<Json>(*text) : Json();
  return plan.is_object() ? plan.value("step", Json()) : Json();
}

void compare_plans(const fs::path& before, const fs::path& now, Reproduction& result) {
  for (const std::string& node : real_file_system().list(RunLayout(before).nodes()))
    if (step_of_plan(before, node) != step_of_plan(now, node)) result.other_plans.push_back(node);
}

std::string metric_value_text(const std::optional<double>& value) {
  return value
             ? (std::isfinite(*value) ? csv_number(*value) : number_json(*value).get<std::string>())
             : "not measured";
}

std::string difference_text(const MetricDifference& one) {
  return one.node + ", step " + std::to_string(one.step) + ": " + one.metric + " was " +
         metric_value_text(one.before) + " and is now " + metric_value_text(one.now);
}

std::string count_text(std::size_t count, const std::string& thing) {
  return std::to_string(count) + " " + thing + (count == 1 ? "" : "s");
}

Json difference_json(const std::optional<MetricDifference>& one) {
  if (!one) return nullptr;
  const auto number = [](const std::optional<double>& value) {
    return value ? number_json(*value) : Json(nullptr);
  };
  return {{"node", one->node},       {"metric", one->metric},
          {"step", one->step},       {"before", number(one->before)},
          {"now", number(one->now)}, {"relative", number_json(one->relative)}};
}

}  // namespace

std::string_view name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kIdentical:
      return "identical";
    case Verdict::kWithinTolerance:
      return "within_tolerance";
    case Verdict::kDifferent:
      return "different";
  }
  return "";
}

Reproduction compare_reproduction(const fs::path& before, const fs::path& now, double tolerance) {
  Reproduction result{.tolerance = tolerance, .first = {}, .largest = {}};
  compare_metrics(before, now, result);
  compare_results(before, now, result);
  compare_plans(before, now, result);
  if (result.largest && result.largest->relative > tolerance) result.verdict = Verdict::kDifferent;
  else if (result.largest || !result.other_files.empty())
    result.verdict = Verdict::kWithinTolerance;
  // Without metrics, there is nothing that could be within tolerance.
  if (result.metrics == 0 && !result.other_files.empty()) result.verdict = Verdict::kDifferent;
  return result;
}

std::string reproduction_text(const Reproduction& found) {
  std::string text;
  switch (found.verdict) {
    case Verdict::kIdentical:
      return "identical: " + count_text(found.metrics, "metric") + " and " +
             count_text(found.files, "file") + " of weights and results match bit for bit\n";
    case Verdict::kWithinTolerance:
      text = "within tolerance: " + count_text(found.metrics, "metric") +
             " with a relative difference of at most " + csv_number(found.tolerance) +
             " from the record";
      text += found.largest ? "; largest: " + csv_number(found.largest->relative) + "\n" : "\n";
      break;
    case Verdict::kDifferent:
      text = "different: not within a relative difference of " + csv_number(found.tolerance) + "\n";
      break;
  }
  if (found.first) text += "first difference: " + difference_text(*found.first) + "\n";
  else text += "first difference: none in the metrics\n";
  if (found.largest && found.largest->relative > found.first->relative)
    text += "largest difference: " + difference_text(*found.largest) + "\n";
  if (!found.other_files.empty())
    text += "files that differ: " + listed(found.other_files, kShownFiles) + "\n";
  if (!found.other_plans.empty())
    text +=
        "steps computed differently (plan.json): " + listed(found.other_plans, kShownFiles) + "\n";
  return text;
}

Json to_json(const Reproduction& found) {
  return {{"verdict", name(found.verdict)},
          {"tolerance", found.tolerance},
          {"metrics", found.metrics},
          {"files", found.files},
          {"first", difference_json(found.first)},
          {"largest", difference_json(found.largest)},
          {"other_files", found.other_files},
          {"other_plans", found.other_plans}};
}

}  // namespace runner
