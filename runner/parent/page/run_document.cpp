#include "runner/parent/page/run_document.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "runner/parent/config/yaml_writer.h"
#include "runner/parent/page/capitalized.h"
#include "runner/parent/page/curves.h"
#include "runner/parent/page/evaluation_document.h"
#include "runner/parent/page/event_rows.h"
#include "runner/parent/page/graph_picture.h"
#include "runner/parent/page/recipe_block.h"
#include "runner/parent/registry/run_entry.h"
#include "runner/parent/report/plan_text.h"
#include "runner/parent/report/recorded_plan.h"
#include "runner/shared/disk/file_digests.h"
#include "runner/shared/stage/family.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/text/join.h"
#include "runner/shared/text/units.h"
#include "runner/shared/value/parse_json.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kLargestGraphFile = 16 << 20;
constexpr std::size_t kMostTrainings = 10;  // maximum number of training nodes shown with curves;
                                            // an ensemble may have hundreds

std::string title_of(const RunReport& report, const std::string& node) {
  const auto found = report.titles.find(node);
  return found == report.titles.end() ? node : found->second;
}

std::string field_text(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

void add_overview(Document& document, const RunDetails& details, const RunReport& report) {
  Table table{.caption = "", .rows = {{"run", details.run.folder.string()}}, .is_folded = false};
  const auto add = [&](const std::string& key, const std::string& value) {
    if (!value.empty()) table.rows.push_back({key, value});
  };
  add("recipe", report.recipe);
  add("status", details.run.status + (details.run.smoke ? " (smoke: only a few steps)" : ""));
  add("started", field_text(details.summary, "started"));
  add("time", report.seconds > 0 ? duration_text(report.seconds) : "");
  add("device",
      details.run.device + ", " + counted(static_cast<std::size_t>(details.run.threads), "thread"));
  add("weights of", details.run.source);
  std::string tags;
  for (const std::string& tag : details.tags) tags += (tags.empty() ? "" : ", ") + tag;
  add("tags", tags);
  for (const auto& [node, best] : report.bests) {
    if (!best.best_step()) continue;
    const auto value = best.best_values().find(best.monitor().metric);
    if (value == best.best_values().end()) continue;
    add("best " + value->first,
        decimal(value->second, 4) + " at step " + std::to_string(*best.best_step()) +
            (report.bests.size() > 1 ? " of " + title_of(report, node) : ""));
  }
  for (const std::string& remark : report.remarks) add("remark", remark);
  document.add(std::move(table));
}

/// Adds a table of the events of the run, unless there are none.
void add_events(Document& document, const RunDetails& details, const RunReport& report) {
  auto rows = event_rows(details, report);
  if (rows.size() == 1) return;
  document.section("Events");
  document.add(
      Table{"Errors, warnings, recoveries, skipped steps and resumes", std::move(rows), false});
}

void add_trainings(Document& document, const RunReport& report) {
  if (report.trainings.empty()) return;
  document.section("Training");
  for (std::size_t i = 0; i < report.trainings.size(); ++i) {
    const auto& [node, history] = report.trainings[i];
    const std::string title = title_of(report, node);
    if (i == kMostTrainings) {
      document.say("The curves of the other " + std::to_string(report.trainings.size() - i) +
                   " training stages are left out; `retort analyze " + report.folder +
                   "` draws all of them.");
      break;
    }
    if (report.trainings.size() > 1) document.part(title);
    for (Drawing& drawing : draw_curves(node, title, report.metrics))
      document.add(Figure{std::move(drawing)});
    for (Drawing& drawing : draw_memory(node, title, report.metrics))
      document.add(Figure{std::move(drawing)});
    Table epochs{
        "Epochs of " + title,
        {{"epoch", "step", "training loss", "validation loss", "validation accuracy", "seconds"}},
        true};
    for (std::size_t epoch = 0; epoch < history.epochs().size(); ++epoch) {
      const TrainingHistory::Epoch& one = history.epochs()[epoch];
      const auto cell = [](const std::optional<double>& value) {
        return value ? decimal(*value, 4) : "–";
      };
      epochs.rows.push_back({std::to_string(epoch + 1), std::to_string(one.step),
                             decimal(one.train_loss, 4), cell(one.validation_loss),
                             cell(one.validation_accuracy), decimal(one.seconds, 1)});
    }
    document.add(std::move(epochs));
  }
}

void add_plan(Document& document, const MemoryPlan& plan, const std::string& title) {
  document.part(title);
  std::string text = "Needs " + size_text(plan.needed);
  if (plan.budget) text += " of " + size_text(*plan.budget) + " (" + plan.budget_from + ")";
  text += "; live bytes at the peak: " + size_text(plan.live) + ", in " + plan.peak_phase + ".";
  if (plan.choice) text += " " + capitalized(choice_text(plan)) + ".";
  document.say(std::move(text));
  if (!plan.curve.empty()) document.add(Figure{draw_plan(plan, title)});
  Table owners{"Live bytes at the peak, by owner", {{"owner", "bytes"}}, false};
  for (const NamedBytes& one : plan.owners)
    if (one.bytes > 0) owners.rows.push_back({one.name, size_text(one.bytes)});
  if (owners.rows.size() > 1) document.add(std::move(owners));
  Table largest{
      "Largest tensors at the peak", {{"tensor", "shape", "type", "owner", "bytes"}}, true};
  for (const AliveTensor& one : plan.largest) {
    largest.rows.push_back(
        {one.name, shape_text(one.shape), one.dtype, one.owner, size_text(one.bytes)});
  }
  if (largest.rows.size() > 1) document.add(std::move(largest));
}

bool is_evaluation_node(const RunDetails& details, const std::string& node) {
  const Value* const stage = details.recipe.find(node.substr(0, node.find('.')));
  const Value* const kind = stage ? stage->find("kind") : nullptr;
  return kind && kind->text() && family_of(*kind->text()) == Family::kEvaluate;
}

/// Returns the plans of some of the nodes, in order. Counts evaluations separately from other
/// nodes, so that an ensemble does not hide the plan of its evaluation.
std::vector<std::pair<std::string, MemoryPlan>> shown_plans(const RunDetails& details,
                                                            std::size_t& left_out) {
  std::vector<std::pair<std::string, MemoryPlan>> plans;
  std::size_t evaluations = 0, others = 0;
  for (const RunDetails::Node& node : details.nodes) {
    auto plan = recorded_plan(details.run.folder, node.id);
    if (!plan) continue;
    std::size_t& shown = is_evaluation_node(details, node.id) ? evaluations : others;
    if (shown++ < kMostTrainings) plans.emplace_back(node.id, *std::move(plan));
    else ++left_out;
  }
  return plans;
}

void add_plans(Document& document, const RunDetails& details, const RunReport& report) {
  std::size_t left_out = 0;
  const auto plans = shown_plans(details, left_out);
  if (plans.empty()) return;
  document.section("Memory plan");
  for (const auto& [node, plan] : plans) add_plan(document, plan, title_of(report, node));
  if (left_out > 0)
    document.say("The plans of " + counted(left_out, "other node") +
                 " are left out; `retort plan` shows all of them.");
}

/// Returns the status of a node. A run that ended without finishing leaves the recorded status as
/// it was when it ended.
std::string status_of_node(const RunDetails::Node& node, const std::string& status_of_run) {
  if (status_of_run == "running") return node.status;
  if (node.status == "running") return "not finished";
  return node.status == "waiting" ? "not started" : node.status;
}

void add_stages(Document& document, const RunDetails& details) {
  document.section("Stages");
  const auto text = real_file_system().read(details.run.recipe.parent_path() / RunRecord::kGraph,
                                            kLargestGraphFile);
  try {
    const Graph graph = graph_from_json(text ? parse_json<Json>(*text) : Json());
    if (!graph.nodes.empty()) document.add(Figure{draw_stages(graph)});
  } catch (const std::runtime_error&) {
    document.say("The graph in the record cannot be read.");
  }
  Table table{"Nodes", {{"node", "status", "time", "peak memory"}}, details.nodes.size() > 20};
  for (const RunDetails::Node& node : details.nodes) {
    table.rows.push_back({node.id, status_of_node(node, details.run.status),
                          node.seconds > 0 ? duration_text(node.seconds) : "–",
                          node.peak_memory_bytes > 0 ? size_text(node.peak_memory_bytes) : "–"});
  }
  document.add(std::move(table));
}

void add_environment(Document& document, const RunDetails& details) {
  document.section("Environment");
  Table table{"Machine, versions and variables", {{"key", "value"}}, true};
  for (auto& row : environment_rows(details)) table.rows.push_back(std::move(row));
  document.add(std::move(table));
}

}  // namespace

Document run_document(const RunDetails& details, const RunReport& report) {
  Document document;
  document.title = report.recipe.empty() ? "Run" : report.recipe;
  document.section("Overview");
  add_overview(document, details, report);
  add_events(document, details, report);
  add_evaluations(document, details, report);
  add_trainings(document, report);
  add_plans(document, details, report);
  add_stages(document, details);
  document.section("Recipe");
  document.add(recipe_block(details));
  add_environment(document, details);
  return document;
}

}  // namespace runner
