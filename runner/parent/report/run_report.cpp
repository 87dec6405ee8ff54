#include "runner/parent/report/run_report.h"

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "runner/shared/disk/file_digests.h"
#include "runner/shared/record/metrics_file.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/text/printable.h"
#include "runner/shared/text/units.h"
#include "runner/shared/value/json_fields.h"
#include "runner/shared/value/parse_json.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;
using Class = RecordedEvaluation::Class;

constexpr std::size_t kLargestSummary = 64 << 20;
constexpr std::size_t kShown = 5;  // maximum number of classes and class pairs shown

/// Returns the monitored metric of each training stage of the run, by node.
std::map<std::string, BestValidation> monitored_trainings(const RecordedRun& run) {
  std::map<std::string, BestValidation> trainings;
  const auto text =
      real_file_system().read(run.recipe.parent_path() / RunRecord::kGraph, kLargestSummary);
  const Json graph = text ? parse_json<Json>(*text) : Json();
  if (!graph.is_object() || !graph.contains("nodes") || !graph["nodes"].is_array())
    return trainings;
  for (const Json& node : graph["nodes"]) {
    if (!node.is_object() || !node.contains("id") || !node["id"].is_string() ||
        !node.contains("options"))
      continue;
    if (auto monitor = monitor_of(from_json(node["options"])))
      trainings.emplace(node["id"].get<std::string>(), BestValidation(*std::move(monitor)));
  }
  return trainings;
}

Json read_summary(const RecordedRun& run) {
  const auto text = real_file_system().read(RunLayout(run.folder).summary(), kLargestSummary);
  Json json = text ? parse_json<Json>(*text) : Json();
  return json.is_object() ? json : Json::object();
}

/// Returns the classes that have samples, sorted by increasing accuracy.
std::vector<Class> worst_classes(const RecordedEvaluation& evaluation) {
  std::vector<Class> classes;
  std::ranges::copy_if(evaluation.classes, std::back_inserter(classes),
                       [](const Class& one) { return one.support > 0; });
  std::ranges::stable_sort(classes, {}, &Class::recall);
  classes.resize(std::min(classes.size(), kShown));
  return classes;
}

/// Returns "loss" for "validation/loss".
std::string without_family(const std::string& metric) {
  return metric.substr(metric.find('/') + 1);
}

/// Returns the validation metrics of an epoch, including the monitored metric.
std::string validation_in_words(const TrainingHistory::Epoch& epoch, const BestValidation& best) {
  std::string text;
  if (epoch.validation_loss) text += "loss " + decimal(*epoch.validation_loss, 4);
  if (epoch.validation_accuracy)
    text += (text.empty() ? "" : ", ") + ("accuracy " + percent(*epoch.validation_accuracy)) + "%";
  const std::string& metric = best.monitor().metric;
  const auto monitored = best.best_values().find(metric);
  if (metric != "validation/loss" && metric != "validation/accuracy" &&
      monitored != best.best_values().end())
    text +=
        (text.empty() ? "" : ", ") + without_family(metric) + " " + decimal(monitored->second, 4);
  return text;
}

/// Returns the best epoch by the monitored metric; empty if nothing was validated or no metric is
/// recorded.
std::string best_epoch_text(const TrainingHistory& history, const BestValidation* best) {
  if (!best || !best->best_step()) return "";
  const auto& epochs = history.epochs();
  const auto found = std::ranges::find(epochs, *best->best_step(), &TrainingHistory::Epoch::step);
  if (found == epochs.end()) return "";
  const std::string text = "  validation: " + validation_in_words(*found, *best) + ", in epoch " +
                           std::to_string(found - epochs.begin() + 1);
  return text + (epochs.size() > 1
                     ? ", the best by " + without_family(best->monitor().metric) + "\n"
                     : "\n");
}

std::string training_text(const std::string& title, const TrainingHistory& history,
                          const BestValidation* best) {
  const auto& epochs = history.epochs();
  double seconds = 0;
  for (const auto& epoch : epochs) seconds += epoch.seconds;
  std::string text = printable(title) + ": " + std::to_string(epochs.size()) +
                     (epochs.size() == 1 ? " epoch" : " epochs") + " in " + duration_text(seconds) +
                     ", loss " + decimal(epochs.front().train_loss, 4);
  if (epochs.size() > 1) text += " to " + decimal(epochs.back().train_loss, 4);
  return text + "\n" + best_epoch_text(history, best);
}

/// Returns which labels are suspected to be wrong, and how reliable this finding is; empty if there
/// are none.
std::string suspects_text(const RecordedEvaluation::Suspects& suspects) {
  if (suspects.count == 0) return "";
  std::string text = "  suspected labels: " + std::to_string(suspects.count);
  for (const auto& one : suspects.first)
    text += (&one == suspects.first.data() ? ": " : ", ") + printable(one.name) + " " +
            printable(one.label) + " (rather " + printable(one.suggested) + ")";
  text +=
      suspects.count > std::ssize(suspects.first) ? " …; all are in suspected_labels.csv\n" : "\n";
  if (suspects.trained > 0)
    text += "    unreliable: the network has seen " + std::to_string(suspects.trained) +
            " of these images with their labels in training\n";
  return text;
}

std::string evaluation_text(const RecordedEvaluation& evaluation) {
  std::string text = printable(evaluation.title) + ": top-1 " + percent(evaluation.accuracy) +
                     "% (95% interval " + percent(evaluation.low) + "–" + percent(evaluation.high) +
                     "%), mean per class " + percent(evaluation.mean_per_class) + "%, loss " +
                     decimal(evaluation.loss, 4) + ", " + std::to_string(evaluation.samples) +
                     " samples of " + std::to_string(evaluation.classes.size()) + " classes\n";
  if (evaluation.is_smoke) text += "  a smoke run: only some of the samples were evaluated\n";
  if (evaluation.macro || evaluation.micro) {
    text += "  area under ROC: ";
    if (evaluation.macro) text += decimal(evaluation.macro->area, 4) + " mean of the classes";
    if (evaluation.micro) {
      text += (evaluation.macro ? ", " : "") + decimal(evaluation.micro->area, 4) +
              " all sample-class pairs";
    }
    text += "\n";
  }
  if (evaluation.calibration_error)
    text += "  calibration error: " + percent(*evaluation.calibration_error) + "%\n";
  for (const RecordedEvaluation::BaseModel& model : evaluation.models) {
    text += (&model == evaluation.models.data() ? "  base models alone: " : "; ") +
            printable(model.name);
    text += model.accuracy ? " " + percent(*model.accuracy) + "%" : " abstains from all";
    if (model.kappa) text += ", kappa " + decimal(*model.kappa, 4);
  }
  text += evaluation.models.empty() ? "" : "\n";
  const auto worst = worst_classes(evaluation);
  for (const Class& one : worst) {
    text += (&one == worst.data() ? "  hardest classes: " : ", ") + printable(one.name) + " " +
            percent(one.recall) + "%";
  }
  text += worst.empty() ? "" : "\n";
  const auto confused = most_confused(evaluation, kShown);
  for (const Confusion& pair : confused) {
    text += (&pair == confused.data() ? "  most confused: " : ", ") + printable(pair.truth) +
            " predicted as " + printable(pair.predicted) + " (" + std::to_string(pair.count) + ")";
  }
  text += confused.empty() ? "" : "\n";
  return evaluation.suspects ? text + suspects_text(*evaluation.suspects) : text;
}

/// Returns one line for each metric.
std::string measures_text(const RecordedMeasures& measures) {
  std::string text =
      printable(measures.title) +
      (measures.is_smoke ? ": a smoke run: only some of the samples were evaluated\n" : ":\n");
  for (const auto& [name, value] : measures.values)
    text += "  " + printable(without_family(name)) + " " + decimal(value, 4) + "\n";
  return text;
}

std::string title_of_node(const RunReport& report, const std::string& node) {
  const auto found = report.titles.find(node);
  return found == report.titles.end() ? node : found->second;
}

/// Returns the metrics that evaluations recorded for `node`, with the latest value of each.
std::vector<std::pair<std::string, double>> values_of(const std::string& node,
                                                      const std::vector<MetricLine>& lines) {
  std::vector<std::pair<std::string, double>> values;
  for (const MetricLine& line : lines) {
    if (line.metric.node != node || !line.metric.name.starts_with("evaluate/")) continue;
    const auto found =
        std::ranges::find(values, line.metric.name, &std::pair<std::string, double>::first);
    if (found == values.end()) values.emplace_back(line.metric.name, line.metric.value);
    else found->second = line.metric.value;
  }
  return values;
}

Json json_of(const RecordedMeasures& measures) {
  Json json = {{"node", measures.node},
               {"title", measures.title},
               {"smoke", measures.is_smoke},
               {"values", Json::object()}};
  for (const auto& [name, value] : measures.values) json["values"][name] = number_json(value);
  return json;
}

Json json_of(const RecordedEvaluation& evaluation) {
  Json json = {{"node", evaluation.node},
               {"title", evaluation.title},
               {"accuracy", evaluation.accuracy},
               {"accuracy_interval", {evaluation.low, evaluation.high}},
               {"mean_per_class", evaluation.mean_per_class},
               {"loss", evaluation.loss},
               {"samples", evaluation.samples},
               {"classes", evaluation.classes.size()},
               {"smoke", evaluation.is_smoke},
               {"auc_macro", evaluation.macro ? Json(evaluation.macro->area) : Json(nullptr)},
               {"auc_micro", evaluation.micro ? Json(evaluation.micro->area) : Json(nullptr)},
               {"calibration_error",
                evaluation.calibration_error ? Json(*evaluation.calibration_error) : Json(nullptr)},
               {"hardest_classes", Json::array()},
               {"most_confused", Json::array()}};
  for (const Class& one : worst_classes(evaluation)) {
    json["hardest_classes"].push_back(
        {{"class", one.name}, {"recall", one.recall}, {"support", one.support}});
  }
  for (const Confusion& pair : most_confused(evaluation, kShown)) {
    json["most_confused"].push_back(
        {{"class", pair.truth}, {"predicted", pair.predicted}, {"count", pair.count}});
  }
  if (evaluation.suspects) {
    Json& suspects = json["suspected_labels"];
    suspects = {{"count", evaluation.suspects->count},
                {"trained", evaluation.suspects->trained},
                {"first", Json::array()}};
    for (const auto& [name, label, suggested] : evaluation.suspects->first)
      suspects["first"].push_back({{"name", name}, {"label", label}, {"suggested", suggested}});
  }
  for (const RecordedEvaluation::BaseModel& model : evaluation.models) {
    json["base_models"].push_back(
        {{"model", model.name},
         {"accuracy", model.accuracy ? Json(*model.accuracy) : Json(nullptr)},
         {"quadratic_kappa", model.kappa ? Json(*model.kappa) : Json(nullptr)}});
  }
  return json;
}

}  // namespace

std::vector<Confusion> most_confused(const RecordedEvaluation& evaluation, std::size_t most) {
  std::vector<Confusion> pairs;
  for (std::size_t row = 0; row < evaluation.confusion.size(); ++row) {
    for (std::size_t column = 0; column < evaluation.confusion.size(); ++column) {
      const std::int64_t count = evaluation.confusion[row][column];
      if (row == column || count == 0) continue;
      pairs.push_back({evaluation.classes[row].name, evaluation.classes[column].name, count});
    }
  }
  std::ranges::stable_sort(pairs, std::greater{}, &Confusion::count);
  pairs.resize(std::min(pairs.size(), most));
  return pairs;
}

Result<RunReport> read_report(const RecordedRun& run) {
  const Json summary = read_summary(run);
  RunReport report;
  report.folder = run.folder.string();
  report.status = run.status.empty() ? "running" : run.status;
  if (const auto found = summary.find("recipe"); found != summary.end() && found->is_string())
    report.recipe = *found;
  if (const auto found = summary.find("seconds"); found != summary.end() && found->is_number())
    report.seconds = *found;
  if (const auto found = summary.find("remarks"); found != summary.end() && found->is_array()) {
    for (const Json& remark : *found)
      if (remark.is_string()) report.remarks.push_back(remark);
  }

  RecordedMetrics metrics = read_metrics(RunLayout(run.folder).metrics());
  report.damaged_metrics = metrics.damaged;
  report.bests = monitored_trainings(run);
  double latest = 0;  // time of the last metric before a training stage's first one
  for (const auto& [metric, time] : metrics.lines) {
    auto found = std::ranges::find(report.trainings, metric.node,
                                   &std::pair<std::string, TrainingHistory>::first);
    if (found == report.trainings.end()) {
      report.trainings.emplace_back(metric.node, TrainingHistory(latest));
      found = report.trainings.end() - 1;
    }
    found->second.see(metric, time);
    if (const auto best = report.bests.find(metric.node); best != report.bests.end())
      best->second.see(metric.name, metric.value, metric.step);
    latest = time;
  }
  std::erase_if(report.trainings,
                [](const auto& training) { return training.second.epochs().empty(); });

  Diagnostics errors;
  report.titles = node_titles(run.folder);
  for (const std::string& node : evaluated_nodes(run.folder)) {
    if (auto measures = read_measures(run.folder, node)) {
      measures->title = title_of_node(report, node);
      measures->values = values_of(node, metrics.lines);
      report.measures.push_back(*std::move(measures));
      continue;
    }
    auto evaluation = read_evaluation(run.folder, node);
    if (evaluation) evaluation->title = title_of_node(report, node);
    if (evaluation) report.evaluations.push_back(*std::move(evaluation));
    else errors.insert(errors.end(), evaluation.errors().begin(), evaluation.errors().end());
  }
  if (!errors.empty()) return errors;
  report.metrics = std::move(metrics.lines);
  return report;
}

std::string report_text(const RunReport& report) {
  std::string text = printable(report.folder) + ": " + printable(report.recipe) + ", " +
                     printable(report.status) + "\n";
  for (const auto& [node, history] : report.trainings) {
    const auto best = report.bests.find(node);
    text += training_text(title_of_node(report, node), history,
                          best == report.bests.end() ? nullptr : &best->second);
  }
  for (const RecordedEvaluation& evaluation : report.evaluations)
    text += evaluation_text(evaluation);
  for (const RecordedMeasures& measures : report.measures) text += measures_text(measures);
  for (const std::string& remark : report.remarks) text += "remark: " + printable(remark) + "\n";
  return text;
}

Json to_json(const RunReport& report) {
  Json json = {{"run", report.folder},       {"recipe", report.recipe},
               {"status", report.status},    {"seconds", report.seconds},
               {"trainings", Json::array()}, {"evaluations", Json::array()},
               {"measures", Json::array()}};
  for (const auto& [node, history] : report.trainings) {
    Json one = {{"node", node}, {"title", title_of_node(report, node)}};
    one.update(history.to_json());
    json["trainings"].push_back(std::move(one));
  }
  for (const RecordedEvaluation& evaluation : report.evaluations)
    json["evaluations"].push_back(json_of(evaluation));
  for (const RecordedMeasures& measures : report.measures)
    json["measures"].push_back(json_of(measures));
  if (!report.remarks.empty()) json["remarks"] = report.remarks;
  return json;
}

}  // namespace runner
