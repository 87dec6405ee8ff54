#include "runner/parent/registry/run_details.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "runner/parent/config/yaml_reader.h"
#include "runner/parent/config/yaml_writer.h"
#include "runner/parent/record/run_metrics.h"
#include "runner/parent/registry/run_entry.h"
#include "runner/parent/report/table_text.h"
#include "runner/shared/disk/file_digests.h"
#include "runner/shared/record/recorded_run.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/text/printable.h"
#include "runner/shared/text/units.h"
#include "runner/shared/value/flat_json.h"
#include "runner/shared/value/json_fields.h"
#include "runner/shared/value/parse_json.h"

namespace runner {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::size_t kLargestDetail = 16 << 20;

/// Reads a JSON object from a file of the record. Empty if the file does not exist or, with a
/// warning, if it cannot be read.
Json detail(const fs::path& path, Diagnostics& warnings) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return Json::object();
  const auto text = real_file_system().read(path, kLargestDetail);
  Json json = text ? parse_json<Json>(*text) : Json();
  if (json.is_object()) return json;
  warnings.push_back({.code = ErrorCode::kDamagedRecord,
                      .where = {},
                      .pointer = "",
                      .message = "'" + path.string() + "' cannot be read and is left out",
                      .help = "the other files of the run are intact",
                      .severity = Severity::kWarning});
  return Json::object();
}

template <typename T>
T field_or(const Json& object, const char* key, T otherwise) {
  const Json value = object.is_object() ? object.value(key, Json()) : Json();
  if constexpr (std::is_same_v<T, std::string>)
    return value.is_string() ? value.get<T>() : otherwise;
  else return value.is_number() ? value.get<T>() : otherwise;
}

std::vector<RunDetails::Node> nodes_of(const fs::path& folder, const Json& summary) {
  std::vector<RunDetails::Node> nodes;
  const Json recorded = summary.value("nodes", Json());
  for (const Json& node : recorded.is_array() ? recorded : Json::array()) {
    const std::string id = field_or<std::string>(node, "id", "");
    if (id.empty() || id.find('/') != id.npos) continue;
    nodes.push_back({id, field_or<std::string>(node, "status", ""), node_state(folder, id),
                     field_or(node, "seconds", 0.0),
                     field_or(node, "peak_memory_bytes", std::int64_t{0})});
  }
  if (nodes.empty()) {
    for (const auto& [id, title] : node_titles(folder))
      if (id.find('/') == id.npos) nodes.push_back({id, "", node_state(folder, id)});
  }
  return nodes;
}

std::vector<RunDetails::Metric> metrics_of(const Json& summary) {
  std::vector<RunDetails::Metric> metrics;
  for (const auto& [node, named] : run_metrics(summary).nodes)
    for (const auto& [name, value] : named)
      metrics.push_back({node, name, value.value, value.step});
  return metrics;
}

std::string state_text(const RunDetails::Node& node) {
  std::string text(name(node.state.progress));
  if (node.state.epoch) text += ", epoch " + std::to_string(*node.state.epoch);
  return text;
}

}  // namespace

Result<RunDetails> read_details(const fs::path& folder, Sources& sources, Diagnostics& warnings) {
  auto run = read_run(folder);
  if (!run) return run.errors();
  const auto text = real_file_system().read(run->recipe, kLargestDetail);
  if (!text) {
    return Diagnostic{
        ErrorCode::kDamagedRecord, {}, "", "'" + run->recipe.string() + "' cannot be read", ""};
  }
  auto recipe = read_yaml(sources.add(run->recipe.string(), *text));
  if (!recipe) return recipe.errors();
  RunDetails details{.run = *std::move(run),
                     .summary = detail(RunLayout(folder).summary(), warnings),
                     .environment = {},
                     .recipe = *std::move(recipe),
                     .nodes = {},
                     .metrics = {},
                     .tags = {}};
  details.environment =
      detail(details.run.recipe.parent_path() / RunRecord::kEnvironment, warnings);
  details.run.status = status_now(folder, std::move(details.run.status));
  details.nodes = nodes_of(folder, details.summary);
  details.metrics = metrics_of(details.summary);
  if (auto tags = read_tags(folder)) {
    details.tags = *std::move(tags);
  } else {
    Diagnostic problem = tags.errors().front();
    problem.severity = Severity::kWarning;
    warnings.push_back(std::move(problem));
  }
  return details;
}

std::vector<std::vector<std::string>> environment_rows(const RunDetails& details) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& [key, value] : flat_json(details.environment))
    rows.push_back({printable(key), printable(value)});
  return rows;
}

std::string details_text(const RunDetails& details, const TextStyle& style) {
  std::vector<std::vector<std::string>> rows = {{printable(details.run.folder.string()), ""}};
  const auto add = [&](const std::string& key, const std::string& value) {
    if (!value.empty()) rows.push_back({key, printable(value)});
  };
  const Value* name_of_recipe = details.recipe.find("name");
  add("recipe", name_of_recipe && name_of_recipe->text() ? *name_of_recipe->text() : "");
  add("status", details.run.status + (details.run.smoke ? " (smoke)" : ""));
  add("started", field_or<std::string>(details.summary, "started", ""));
  const double seconds = field_or(details.summary, "seconds", 0.0);
  add("time", seconds > 0 ? duration_text(seconds) : "");
  add("device", details.run.device + ", threads: " + std::to_string(details.run.threads));
  add("weights of", details.run.source);
  std::string tags;
  for (const std::string& tag : details.tags) tags += (tags.empty() ? "" : " ") + tag;
  add("tags", tags);
  std::string text;
  for (std::size_t i = 0; i < rows.size(); ++i)
    text += i == 0 ? rows[i][0] + "\n"
                   : rows[i][0] + std::string(12 - rows[i][0].size(), ' ') + rows[i][1] + "\n";

  rows = {{"node", "files", "status", "time", "peak memory"}};
  std::string problems;
  for (const RunDetails::Node& node : details.nodes) {
    rows.push_back({printable(node.id), state_text(node), printable(node.status),
                    node.seconds > 0 ? duration_text(node.seconds) : "–",
                    node.peak_memory_bytes > 0 ? size_text(node.peak_memory_bytes) : "–"});
    if (!node.state.missing.empty()) problems += node.id + ": " + node.state.missing + "\n";
  }
  if (rows.size() > 1) text += "\n" + table_text(rows, style.table_width()) + problems;
  rows = {{"metric", "node", "value", "step"}};
  for (const RunDetails::Metric& metric : details.metrics)
    rows.push_back({printable(metric.name), printable(metric.node), shown_number(metric.value),
                    std::to_string(metric.step)});
  if (rows.size() > 1) text += "\n" + table_text(rows, style.table_width());
  rows = {{"environment", ""}};
  for (auto& row : environment_rows(details)) rows.push_back(std::move(row));
  if (rows.size() > 1) text += "\n" + table_text(rows, style.table_width());
  return text + "\n# recipe\n" + write_yaml(details.recipe);
}

Json to_json(const RunDetails& details) {
  const auto or_null = [](const auto& value) { return value ? Json(*value) : Json(nullptr); };
  const Value* name_of_recipe = details.recipe.find("name");
  Json json = {{"folder", details.run.folder.string()},
               {"recipe", name_of_recipe && name_of_recipe->text() ? Json(*name_of_recipe->text())
                                                                   : Json(nullptr)},
               {"status", details.run.status},
               {"exit", details.summary.contains("exit") && details.summary["exit"].is_number()
                            ? details.summary["exit"]
                            : Json(nullptr)},
               {"started", field_or<std::string>(details.summary, "started", "")},
               {"seconds", field_or(details.summary, "seconds", 0.0)},
               {"smoke", details.run.smoke},
               {"device", details.run.device},
               {"threads", details.run.threads},
               {"source", details.run.source.empty() ? Json(nullptr) : Json(details.run.source)},
               {"tags", details.tags},
               {"nodes", Json::array()},
               {"metrics", Json::array()},
               {"environment", details.environment},
               {"settings", to_json(details.recipe)}};
  for (const RunDetails::Node& node : details.nodes) {
    json["nodes"].push_back(
        {{"node", node.id},
         {"state", name(node.state.progress)},
         {"status", node.status},
         {"seconds", node.seconds},
         {"peak_memory_bytes", node.peak_memory_bytes},
         {"epoch", or_null(node.state.epoch)},
         {"best", node.state.best ? number_json(*node.state.best) : Json(nullptr)},
         {"best_epoch", or_null(node.state.best_epoch)},
         {"missing", node.state.missing.empty() ? Json(nullptr) : Json(node.state.missing)}});
  }
  for (const RunDetails::Metric& metric : details.metrics) {
    json["metrics"].push_back({{"node", metric.node},
                               {"metric", metric.name},
                               {"value", number_json(metric.value)},
                               {"step", metric.step}});
  }
  return json;
}

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kWidestValue = 40;  // maximum number of characters of a value in the table

/// NaN equals NaN here, since two runs that failed the same way do not differ.
bool is_unchanged(double a, double b) { return a == b || (a != a && b != b); }

std::string shown_value(const std::optional<Value>& value) {
  if (!value) return "–";
  const Json json = to_json(*value);
  const std::string text =
      printable(json.is_string() ? json.get<std::string>()
                                 : json.dump(-1, ' ', false, Json::error_handler_t::replace));
  return columns(text) > kWidestValue ? std::string(first_columns(text, kWidestValue - 1)) + "…"
                                      : text;
}

std::string keys_text(const std::string& what, const RunDifference& runs,
                      const std::vector<Difference>& differing, const TextStyle& style) {
  if (differing.empty()) return "The " + what + " is the same.\n";
  std::vector<std::vector<std::string>> rows = {
      {what, printable(runs.before), printable(runs.after)}};
  for (const Difference& one : differing)
    rows.push_back({printable(one.key), shown_value(one.before), shown_value(one.after)});
  return table_text(rows, style.table_width());
}

Json keys_json(const std::vector<Difference>& differing) {
  Json json = Json::array();
  for (const Difference& one : differing) {
    Json field = {{"key", one.key}};
    if (one.before) field["before"] = to_json(*one.before);
    if (one.after) field["after"] = to_json(*one.after);
    json.push_back(std::move(field));
  }
  return json;
}

}  // namespace

RunDifference difference_of(const RunDetails& before, const RunDetails& after) {
  RunDifference difference{
      .before = before.run.folder.string(),
      .after = after.run.folder.string(),
      .recipe = differences(before.recipe, after.recipe),
      .environment = differences(from_json(before.environment), from_json(after.environment)),
      .metrics = {}};
  const auto find = [](const RunDetails& run, const RunDetails::Metric& wanted) {
    const auto found = std::ranges::find_if(run.metrics, [&](const RunDetails::Metric& one) {
      return one.node == wanted.node && one.name == wanted.name;
    });
    return found == run.metrics.end() ? std::nullopt : std::optional(found->value);
  };
  for (const RunDetails::Metric& metric : before.metrics) {
    const auto other = find(after, metric);
    if (!other || !is_unchanged(metric.value, *other))
      difference.metrics.push_back({metric.node, metric.name, metric.value, other});
  }
  for (const RunDetails::Metric& metric : after.metrics)
    if (!find(before, metric))
      difference.metrics.push_back({metric.node, metric.name, std::nullopt, metric.value});
  return difference;
}

std::string difference_text(const RunDifference& difference, const TextStyle& style) {
  std::string text = keys_text("recipe", difference, difference.recipe, style) + "\n" +
                     keys_text("environment", difference, difference.environment, style) + "\n";
  if (difference.metrics.empty()) return text + "The metrics are the same.\n";
  std::vector<std::vector<std::string>> rows = {
      {"metric", "node", printable(difference.before), printable(difference.after), "difference"}};
  const auto cell = [](const std::optional<double>& value) {
    return value ? shown_number(*value) : "–";
  };
  for (const auto& [node, name, before, after] : difference.metrics) {
    const auto change = before && after ? std::optional(*after - *before) : std::nullopt;
    rows.push_back({printable(name), printable(node), cell(before), cell(after), cell(change)});
  }
  return text + table_text(rows, style.table_width());
}

Json to_json(const RunDifference& difference) {
  Json json = {{"runs", {difference.before, difference.after}},
               {"recipe", keys_json(difference.recipe)},
               {"environment", keys_json(difference.environment)},
               {"metrics", Json::array()}};
  for (const auto& [node, name, before, after] : difference.metrics) {
    Json field = {{"node", node}, {"metric", name}};
    if (before) field["before"] = number_json(*before);
    if (after) field["after"] = number_json(*after);
    json["metrics"].push_back(std::move(field));
  }
  return json;
}

}  // namespace runner
