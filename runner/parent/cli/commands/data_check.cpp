#include "runner/parent/cli/commands/data_check.h"

#include <algorithm>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "runner/parent/cli/prepare.h"
#include "runner/parent/cli/weights_source.h"
#include "runner/parent/report/data_survey.h"
#include "runner/parent/run/ask_worker.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;

bool says(const Value& options, std::string_view key, std::string_view word) {
  const Value* const value = options.find(key);
  return value && value->text() && *value->text() == word;
}

/// What the options of the node make of a finding.
SurveyTolerance tolerance_of(const Graph& graph, const std::string& id) {
  const auto node = std::ranges::find(graph.nodes, id, &Node::id);
  if (node == graph.nodes.end()) return {};
  return {.copies = says(node->options, "duplicates", "drop") || says(node->options, "duplicates", "keep"),
          .unreadable = says(node->options, "on_corrupt", "skip")};
}

}  // namespace

ExitCode check_data(const NamedRecipe& recipe, std::int64_t distance, const LogFlags& log, Console& console) {
  const SchemaSet& schemas = shipped_schemas();
  auto prepared = prepare(recipe, schemas, console.sources);
  if (!prepared) return report(console, prepared.errors());
  Graph& graph = prepared->graph;
  std::erase_if(graph.nodes, [](const Node& node) { return !node.kind.starts_with("data."); });
  std::erase_if(graph.nodes, [](const Node& node) { return !node.inputs.empty(); });
  if (graph.nodes.empty())
    return report(console, {{ErrorCode::kUsage, {}, "", "the recipe has no data stage", "name one that has"}});
  const auto worker = log.worker();
  if (!worker) return report(console, worker.errors());
  warn(console, prepared->composition.warnings);

  ProgressDisplay display(console.err, standard_error_display(console.verbosity),
                          SecretTexts(prepared->recipe.resolved));
  const Json request = {
      {"protocol", kProtocolVersion}, {"request", "check_data"}, {"graph", to_json(graph)}, {"distance", distance}};
  const auto answer = ask_worker(*worker, request, shown_conversation(display, "data"));
  display.clear();
  const Value& resolved = prepared->recipe.resolved;
  if (!answer) return report(console, placed(answer.errors(), resolved));
  Diagnostics errors, warnings;
  for (const Json& survey : (*answer)["data"]) {
    if (!console.json && !console.is_quiet()) console.out << data_survey_text(survey);
    for (Diagnostic& finding : data_survey_findings(survey, tolerance_of(graph, survey["node"])))
      (finding.severity == Severity::kError ? errors : warnings).push_back(std::move(finding));
  }
  if (!console.json && !console.is_quiet() && errors.empty() && warnings.empty()) console.out << "nothing was found\n";
  warn(console, placed(warnings, resolved));
  errors = placed(errors, resolved);
  if (console.json) print_result(console, "data_check/1", *answer, errors);
  else if (!errors.empty()) return report(console, errors);
  return exit_code(errors);
}

}  // namespace runner
