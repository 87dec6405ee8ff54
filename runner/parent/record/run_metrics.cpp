#include "runner/parent/record/run_metrics.h"

#include <fstream>

#include <nlohmann/json.hpp>

#include "runner/shared/disk/descriptor.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/value/json_fields.h"
#include "runner/shared/value/parse_json.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;

const Json& member(const Json& json, const char* key) {
  static const Json none;
  const auto found = json.is_object() ? json.find(key) : json.end();
  return json.is_object() && found != json.end() ? *found : none;
}

std::int64_t step_in(const Json& json) {
  const Json& step = member(json, "step");
  return step.is_number_integer() ? step.get<std::int64_t>() : 0;
}

}  // namespace

std::map<std::string, double> RunMetrics::values() const {
  std::map<std::string, int> counts;
  for (const auto& [node, named] : nodes)
    for (const auto& [name, value] : named) ++counts[name];
  std::map<std::string, double> values;
  for (const auto& [node, named] : nodes)
    for (const auto& [name, value] : named)
      values[counts[name] > 1 ? node + ":" + name : name] = value.value;
  return values;
}

RunMetrics metrics_of_run(const std::filesystem::path& folder) {
  std::ifstream file = open_regular(RunLayout(folder).summary());
  return run_metrics(parse_json<Json>(file));
}

RunMetrics run_metrics(const Json& summary) {
  RunMetrics metrics;
  const Json &last = member(summary, "metrics"), &kept = member(summary, "kept");
  if (last.is_object()) {
    for (const auto& [node, named] : last.items()) {
      if (!named.is_object()) continue;
      for (const auto& [name, one] : named.items())
        if (const auto value = number_from_json(member(one, "value")))
          metrics.nodes[node][name] = {*value, step_in(one)};
    }
  }
  if (!kept.is_object()) return metrics;
  for (const auto& [node, one] : kept.items()) {
    const Json& named = member(one, "metrics");
    if (!named.is_object()) continue;
    for (const auto& [name, value] : named.items())
      if (const auto number = number_from_json(value))
        metrics.nodes[node][name] = {*number, step_in(one)};
  }
  if (kept.size() != 1) return metrics;
  const Json &kind = member(kept.front(), "kind"), &monitor = member(kept.front(), "monitor");
  if (kind.is_string()) metrics.trained_by = kind;
  if (monitor.is_string()) metrics.monitor = monitor;
  return metrics;
}

}  // namespace runner
