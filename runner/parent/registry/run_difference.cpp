#include "runner/parent/registry/run_difference.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "runner/parent/registry/run_entry.h"
#include "runner/parent/report/table.h"
#include "runner/shared/text/printable.h"
#include "runner/shared/value/json_number.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kWidestValue = 40;  // characters of a value in the table

/// NaN is what NaN is: a run that failed twice in the same way differs in nothing.
bool is_unchanged(double a, double b) { return a == b || (a != a && b != b); }

std::string shown_value(const std::optional<Value>& value) {
  if (!value) return "–";
  const Json json = to_json(*value);
  const std::string text =
      printable(json.is_string() ? json.get<std::string>() : json.dump(-1, ' ', false, Json::error_handler_t::replace));
  return columns(text) > kWidestValue ? std::string(first_columns(text, kWidestValue - 1)) + "…" : text;
}

std::string keys_text(const std::string& what, const RunDifference& runs, const std::vector<Difference>& differing) {
  if (differing.empty()) return "The " + what + " is the same.\n";
  std::vector<std::vector<std::string>> rows = {{what, printable(runs.before), printable(runs.after)}};
  for (const Difference& one : differing)
    rows.push_back({printable(one.key), shown_value(one.before), shown_value(one.after)});
  return table_text(rows);
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
  RunDifference difference{.before = before.run.folder.string(),
                           .after = after.run.folder.string(),
                           .recipe = differences(before.recipe, after.recipe),
                           .environment = differences(from_json(before.environment), from_json(after.environment)),
                           .metrics = {}};
  const auto find = [](const RunDetails& run, const RunDetails::Metric& wanted) {
    const auto found = std::ranges::find_if(
        run.metrics, [&](const RunDetails::Metric& one) { return one.node == wanted.node && one.name == wanted.name; });
    return found == run.metrics.end() ? std::nullopt : std::optional(found->value);
  };
  for (const RunDetails::Metric& metric : before.metrics) {
    const auto other = find(after, metric);
    if (!other || !is_unchanged(metric.value, *other))
      difference.metrics.push_back({metric.node, metric.name, metric.value, other});
  }
  for (const RunDetails::Metric& metric : after.metrics)
    if (!find(before, metric)) difference.metrics.push_back({metric.node, metric.name, std::nullopt, metric.value});
  return difference;
}

std::string difference_text(const RunDifference& difference) {
  std::string text = keys_text("recipe", difference, difference.recipe) + "\n" +
                     keys_text("environment", difference, difference.environment) + "\n";
  if (difference.metrics.empty()) return text + "The metrics are the same.\n";
  std::vector<std::vector<std::string>> rows = {
      {"metric", "node", printable(difference.before), printable(difference.after), "difference"}};
  const auto cell = [](const std::optional<double>& value) { return value ? shown_number(*value) : "–"; };
  for (const auto& [node, name, before, after] : difference.metrics) {
    const auto change = before && after ? std::optional(*after - *before) : std::nullopt;
    rows.push_back({printable(name), printable(node), cell(before), cell(after), cell(change)});
  }
  return text + table_text(rows);
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
