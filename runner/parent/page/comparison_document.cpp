#include "runner/parent/page/comparison_document.h"

#include <array>
#include <map>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include "runner/parent/page/curves.h"
#include "runner/parent/registry/run_entry.h"
#include "runner/shared/text/units.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;

std::string overview_time(const RunReport& report) {
  return report.seconds > 0 ? duration_text(report.seconds) : "–";
}

std::string started_at(const RunDetails& details) {
  const Json started = details.summary.value("started", Json());
  return started.is_string() ? started.get<std::string>() : "–";
}

void add_both_runs(Document& document, const ComparedRun& a, const ComparedRun& b) {
  document.section("Runs");
  const auto row = [&](const char* what, const auto& text) {
    return std::vector<std::string>{what, text(a), text(b)};
  };
  document.add(
      Table{"Runs",
            {{"what", "A", "B"},
             row("run", [](const ComparedRun& run) { return run.details.run.folder.string(); }),
             row("recipe", [](const ComparedRun& run) { return run.report.recipe; }),
             row("status", [](const ComparedRun& run) { return run.details.run.status; }),
             row("started", [](const ComparedRun& run) { return started_at(run.details); }),
             row("time", [](const ComparedRun& run) { return overview_time(run.report); }),
             row("device", [](const ComparedRun& run) { return run.details.run.device; })},
            false});
}

std::string compared_cell(const std::optional<Value>& value) {
  if (!value) return "–";
  const Json json = to_json(*value);
  return json.is_string() ? json.get<std::string>()
                          : json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void add_differences(Document& document, const std::string& heading, const std::string& none,
                     const std::vector<Difference>& differences, bool is_folded) {
  document.section(heading);
  if (differences.empty()) document.say(none);
  Table table{is_folded ? "What differs" : heading, {{"key", "A", "B"}}, is_folded};
  for (const Difference& one : differences)
    table.rows.push_back({one.key, compared_cell(one.before), compared_cell(one.after)});
  document.add(std::move(table));
}

void add_metrics(Document& document, const ComparedRun& a, const ComparedRun& b) {
  std::map<std::pair<std::string, std::string>, std::array<std::optional<double>, 2>> values;
  for (const RunDetails::Metric& one : a.details.metrics)
    values[{one.node, one.name}][0] = one.value;
  for (const RunDetails::Metric& one : b.details.metrics)
    values[{one.node, one.name}][1] = one.value;
  document.section("Metrics");
  if (values.empty()) document.say("Nothing was measured.");
  Table table{"Metrics", {{"node", "metric", "A", "B", "B − A"}}, false};
  const auto cell = [](const std::optional<double>& value) {
    return value ? shown_number(*value) : "–";
  };
  for (const auto& [name, both] : values) {
    const auto change = both[0] && both[1] ? std::optional(*both[1] - *both[0]) : std::nullopt;
    table.rows.push_back({name.first, name.second, cell(both[0]), cell(both[1]), cell(change)});
  }
  document.add(std::move(table));
}

void add_curves(Document& document, const ComparedRun& a, const ComparedRun& b) {
  const std::array<NamedMetrics, 2> runs = {{{"A", a.report.metrics}, {"B", b.report.metrics}}};
  std::set<std::string> nodes;
  for (const ComparedRun* run : {&a, &b})
    for (const auto& [node, history] : run->report.trainings) nodes.insert(node);
  bool is_first = true;
  for (const std::string& node : nodes) {
    for (Drawing& drawing : draw_compared_curves(node, node, runs)) {
      if (std::exchange(is_first, false)) document.section("Curves");
      document.add(Figure{std::move(drawing)});
    }
  }
}

}  // namespace

Document comparison_document(const ComparedRun& a, const ComparedRun& b,
                             const Comparison* results) {
  RunDifference difference = difference_of(a.details, b.details);
  std::erase_if(difference.recipe, [](const Difference& one) { return !affects_results(one); });
  Document document{.title = "Two runs side by side", .blocks = {}};
  add_both_runs(document, a, b);
  add_differences(document, "Settings that differ", "The recipes are the same.", difference.recipe,
                  false);
  add_metrics(document, a, b);
  if (results && !results->rows.empty()) document.add(Figure{draw_comparison(*results)});
  add_curves(document, a, b);
  add_differences(document, "Environment", "The environments are the same.", difference.environment,
                  true);
  return document;
}

}  // namespace runner
