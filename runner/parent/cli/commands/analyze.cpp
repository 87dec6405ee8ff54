#include <memory>

#include <nlohmann/json.hpp>

#include "runner/parent/cli/command.h"
#include "runner/parent/report/caption_similarity.h"
#include "runner/parent/report/episode_pictures.h"
#include "runner/parent/report/label_curves.h"
#include "runner/parent/report/recorded_evaluation.h"
#include "runner/parent/report/run_report.h"
#include "runner/parent/report/target_predictions.h"
#include "runner/parent/report/training_picture.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/text/printable.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;

/// Returns "roc.svg", or "roc.NODE.svg" if there are several nodes.
std::string file_name(const std::string& what, const std::string& node, std::size_t nodes) {
  return what + (nodes > 1 ? "." + node : "") + ".svg";
}

void draw(const RunReport& report, DrawingFolder& pictures) {
  for (const auto& [node, history] : report.trainings) {
    pictures.write(file_name("training_curves", node, report.trainings.size()),
                   draw_training(history, report.recipe).svg());
  }
  for (const RecordedEvaluation& evaluation : report.evaluations) {
    const auto name = [&](const char* what) {
      return file_name(what, evaluation.node, report.evaluations.size());
    };
    if (!evaluation.confusion.empty()) {
      pictures.write(name("confusion_matrix"), draw_confusion(evaluation, report.recipe).svg());
    }
    if (!evaluation.pairs.empty())
      pictures.write(name("pair_matrix"), draw_pairs(evaluation, report.recipe).svg());
    if (!evaluation.episodes.empty())
      pictures.write(name("episodes"), draw_episodes(evaluation, report.recipe).svg());
    if (evaluation.macro || evaluation.micro)
      pictures.write(name("roc"), draw_roc(evaluation, report.recipe).svg());
    if (evaluation.calibration_error)
      pictures.write(name("calibration"), draw_calibration(evaluation, report.recipe).svg());
  }
}

/// Draws the predictions of numeric evaluations, the curves of labels and the similarities of
/// captions. Returns a warning for each damaged file.
Diagnostics draw_measures(const RunReport& report, DrawingFolder& pictures) {
  Diagnostics warnings;
  const auto warn_of = [&](const Diagnostics& errors) {
    for (Diagnostic warning : errors) {
      warning.severity = Severity::kWarning;
      warnings.push_back(std::move(warning));
    }
  };
  for (const RecordedMeasures& measures : report.measures) {
    const auto curves = read_label_curves(report.folder, measures.node);
    if (curves && !curves->curves.empty())
      pictures.write(file_name("label_curves", measures.node, report.measures.size()),
                     draw_label_curves(*curves, report.recipe).svg());
    if (!curves) warn_of(curves.errors());
    const auto targets = read_target_predictions(report.folder, measures.node);
    if (targets && !targets->empty())
      pictures.write(file_name("predictions", measures.node, report.measures.size()),
                     draw_predictions(*targets, report.recipe).svg());
    if (const auto similarity = read_similarity(report.folder, measures.node))
      pictures.write(file_name("similarity", measures.node, report.measures.size()),
                     draw_similarity(*similarity, report.recipe).svg());
    if (!targets) warn_of(targets.errors());
  }
  return warnings;
}

/// Returns a warning for each result that is missing from the record and leaves a chart incomplete
/// or impossible to draw.
Diagnostics gaps(const RunReport& report) {
  Diagnostics warnings;
  const auto add = [&](ErrorCode code, const std::string& message, const std::string& help) {
    warnings.push_back({code, {}, "", message, help, {}, Severity::kWarning});
  };
  if (report.damaged_metrics > 0) {
    add(ErrorCode::kDamagedRecord,
        "skipped damaged lines of metrics.jsonl: " + std::to_string(report.damaged_metrics),
        "the training curves may have gaps");
  }
  for (const RecordedEvaluation& evaluation : report.evaluations) {
    if (evaluation.has_curves || !evaluation.episodes.empty()) continue;  // episodes have no curves
    add(ErrorCode::kNoResults,
        "'" + evaluation.node + "' has no curves.json: ROC and calibration are not drawn",
        "evaluate the run again with `retort evaluate " + report.folder + "`");
  }
  return warnings;
}

struct AnalyzeFlags {
  RunSelection runs;
  std::string out;  ///< the folder for the charts; empty: each run's analysis/
};

/// Draws the run's charts into `folder` and returns their paths. Adds a warning for anything that
/// cannot be drawn.
std::vector<std::string> draw_into(const std::filesystem::path& folder, const RunReport& report,
                                   Diagnostics& warnings) {
  DrawingFolder pictures(folder);
  draw(report, pictures);
  const Diagnostics damaged = draw_measures(report, pictures);
  warnings.insert(warnings.end(), damaged.begin(), damaged.end());
  return pictures.written();
}

ExitCode analyze(const AnalyzeFlags& flags, Console& console) {
  const auto runs = selected_runs(flags.runs, console);
  if (!runs) return runner::report(console, runs.errors());
  Diagnostics errors, warnings;
  Json all = Json::array();
  std::string text;
  try {
    for (const RecordedRun& run : *runs) {
      const auto report = read_report(run);
      if (!report) {
        errors.insert(errors.end(), report.errors().begin(), report.errors().end());
        continue;
      }
      if (report->trainings.empty() && report->evaluations.empty() && report->measures.empty()) {
        errors.push_back({ErrorCode::kNoResults,
                          {},
                          "",
                          "the run in '" + report->folder + "' has no measurements yet",
                          "continue it with `retort resume " + report->folder + "`"});
        continue;
      }
      const std::filesystem::path out = runs->size() == 1 ? std::filesystem::path(flags.out)
                                                          : flags.out / run.folder.relative_path();
      const auto pictures =
          draw_into(flags.out.empty() ? RunLayout(run.folder).analysis() : out, *report, warnings);
      const Diagnostics missing = gaps(*report);
      warnings.insert(warnings.end(), missing.begin(), missing.end());
      all.push_back(to_json(*report));
      all.back()["pictures"] = pictures;
      text += (text.empty() ? "" : "\n") + report_text(*report);
      for (const std::string& path : pictures) text += printable(path) + "\n";
    }
  } catch (const WriteError& error) {
    return runner::report(console, {error.diagnostic()});
  }
  warn(console, warnings);
  if (!console.json) console.out << text;
  else if (errors.empty())
    print_result(console, "analyze/1", all.size() == 1 ? all.front() : Json{{"runs", all}});
  return errors.empty() ? ExitCode::kDone : runner::report(console, errors);
}

Invocation declare_analyze() {
  const auto flags = std::make_shared<AnalyzeFlags>();
  Invocation verb;
  add_runs(verb, flags->runs,
           "One or more run folders, as `retort run` printed them, or folders of runs");
  verb.add({.name = "--out",
            .value = &flags->out,
            .summary = "Save the plots to this folder instead of the run's analysis/",
            .type = "DIR",
            .is_written = true});
  verb.run = [flags](Console& console) { return analyze(*flags, console); };
  return verb;
}

}  // namespace

const Command kAnalyzeCommand = {"analyze", "Shows the results of a run and draws its curves.",
                                 "retort analyze outputs/2026-01-31/12-00-00", declare_analyze};

}  // namespace runner
