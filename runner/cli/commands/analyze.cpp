#include <memory>

#include <nlohmann/json.hpp>

#include "runner/cli/command.h"
#include "runner/report/evaluation_pictures.h"
#include "runner/report/picture_folder.h"
#include "runner/report/run_report.h"
#include "runner/report/training_picture.h"
#include "runner/stage/run_layout.h"

namespace runner {
namespace {

/// "roc.svg", with the node's name where there are several.
std::string file_name(const std::string& what, const std::string& node, std::size_t nodes) {
  return what + (nodes > 1 ? "." + node : "") + ".svg";
}

void draw(const RunReport& report, PictureFolder& pictures) {
  for (const auto& [node, history] : report.trainings) {
    pictures.write(file_name("training_curves", node, report.trainings.size()), draw_training(history, report.recipe));
  }
  for (const RecordedEvaluation& evaluation : report.evaluations) {
    const auto name = [&](const char* what) { return file_name(what, evaluation.node, report.evaluations.size()); };
    if (!evaluation.confusion.empty()) {
      pictures.write(name("confusion_matrix"), draw_confusion(evaluation, report.recipe));
    }
    if (evaluation.macro || evaluation.micro) pictures.write(name("roc"), draw_roc(evaluation, report.recipe));
    if (evaluation.calibration_error) pictures.write(name("calibration"), draw_calibration(evaluation, report.recipe));
  }
}

/// What is missing and would be there in another record.
Diagnostics gaps(const RunReport& report) {
  Diagnostics warnings;
  const auto add = [&](ErrorCode code, const std::string& message, const std::string& help) {
    warnings.push_back({code, {}, "", message, help, {}, Severity::kWarning});
  };
  if (report.damaged_metrics > 0) {
    add(ErrorCode::kDamagedRecord,
        "metrics.jsonl has damaged lines, which are left out: " + std::to_string(report.damaged_metrics),
        "the curves of the training may have gaps");
  }
  for (const RecordedEvaluation& evaluation : report.evaluations) {
    if (evaluation.has_curves) continue;
    add(ErrorCode::kNoResults, "'" + evaluation.node + "' has no curves.json: ROC and calibration are not drawn",
        "evaluate the run again with `retort evaluate " + report.folder + "`");
  }
  return warnings;
}

struct AnalyzeFlags {
  std::string run;
  std::string out;  ///< empty: the run's analysis/
};

ExitCode analyze(const AnalyzeFlags& flags, Console& console) {
  const auto run = read_run(flags.run);
  if (!run) return runner::report(console, run.errors());
  const auto report = read_report(*run);
  if (!report) return runner::report(console, report.errors());
  if (report->trainings.empty() && report->evaluations.empty()) {
    return runner::report(console, {{ErrorCode::kNoResults,
                                     {},
                                     "",
                                     "the run in '" + report->folder + "' has no measurements yet",
                                     "continue it with `retort resume " + report->folder + "`"}});
  }
  try {
    PictureFolder pictures(flags.out.empty() ? RunLayout(run->folder).analysis() : std::filesystem::path(flags.out));
    draw(*report, pictures);
    warn(console, gaps(*report));
    if (console.json) {
      nlohmann::ordered_json json = to_json(*report);
      json["pictures"] = pictures.written();
      print_result(console, "analyze/1", json);
    } else {
      console.out << report_text(*report);
      for (const std::string& path : pictures.written()) console.out << path << '\n';
    }
  } catch (const WriteError& error) {
    return runner::report(console, {error.diagnostic()});
  }
  return ExitCode::kDone;
}

Invocation declare_analyze() {
  const auto flags = std::make_shared<AnalyzeFlags>();
  Invocation verb;
  verb.add({.name = "run",
            .value = &flags->run,
            .summary = "The run's folder, as `retort run` printed it",
            .required = true});
  verb.add({.name = "--out",
            .value = &flags->out,
            .summary = "The folder to draw into, instead of the run's analysis/",
            .type = "DIR"});
  verb.run = [flags](Console& console) { return analyze(*flags, console); };
  return verb;
}

}  // namespace

const Command kAnalyzeCommand = {"analyze", "Shows the results of a run and draws its curves.",
                                 "retort analyze outputs/2026-01-31/12-00-00", declare_analyze};

}  // namespace runner
