#include <cmath>
#include <optional>

#include <nlohmann/json.hpp>

#include "runner/parent/cli/commands/runs.h"
#include "runner/parent/cli/prepare.h"
#include "runner/parent/report/reproduction.h"
#include "runner/shared/text/finite_number.h"
#include "runner/shared/text/printable.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;

/// Like the exit code 2 of `plan --detailed-exitcode`: success, but with something to report.
constexpr auto kWithinToleranceExit = static_cast<ExitCode>(2),
               kDifferentExit = static_cast<ExitCode>(3);

std::optional<double> tolerance_from(const std::string& text) {
  const auto number = finite_number(text);
  return number && *number >= 0 ? number : std::nullopt;
}

Diagnostic no_tolerance(const std::string& text) {
  return {ErrorCode::kUsage,
          {},
          "",
          "'" + text + "' is not a tolerance",
          "give the maximum relative difference in metrics, 0 or more: --tolerance 1e-3"};
}

Diagnostic not_finished(const RecordedRun& run) {
  return {ErrorCode::kNoResults,
          {},
          "",
          "the run in '" + run.folder.string() +
              "' has not finished, so there is nothing to compare with: its status "
              "is '" +
              (run.status.empty() ? "unknown" : run.status) + "'",
          "finish it with `retort resume " + run.folder.string() +
              "`, or start it again with `retort runs rerun " + run.folder.string() + "`"};
}

ExitCode exit_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kIdentical:
      return ExitCode::kDone;
    case Verdict::kWithinTolerance:
      return kWithinToleranceExit;
    case Verdict::kDifferent:
      return kDifferentExit;
  }
  return ExitCode::kInternalError;
}

void print_verdict(const RecordedRun& run, const Rerun& rerun, const std::string& folder,
                   const Reproduction& found, Console& console) {
  if (console.json) {
    Json json = to_json(found);
    json["run"] = run.folder.string();
    json["folder"] = folder;
    json["changes"] = to_json(rerun.changes());
    print_result(console, "runs_reproduce/1", json);
    return;
  }
  console.out << reproduction_text(found) << printable(folder) << '\n';
  if (found.verdict == Verdict::kIdentical || console.is_quiet()) return;
  if (rerun.changes().empty()) {
    console.err << "the record shows no other difference; `retort doctor determinism "
                << run.recipe.string()
                << "` names the first tensor that differs between two runs\n";
  } else {
    console.err << "the differences from the record were listed before the run started\n";
  }
}

}  // namespace

ExitCode reproduce_run(RerunFlags flags, const std::string& tolerance_text, Console& console) {
  const auto tolerance = tolerance_from(tolerance_text);
  if (!tolerance) return report(console, {no_tolerance(tolerance_text)});
  auto run = read_run(flags.run);
  if (!run) return report(console, run.errors());
  if (run->source.empty() && run->status != "finished")
    return report(console, {not_finished(*run)});
  flags.reuse = ReuseOptions::Which::kNone;
  Rerun rerun(flags, *run);
  std::string folder;
  const ExitCode exit = rerun(console, [&](const Json& summary, const Diagnostics& found) {
    if (summary["exit"] == 0) folder = summary["folder"];
    else if (console.json) print_run(console, summary, found);
  });
  if (exit != ExitCode::kDone) return exit;
  const Reproduction found = compare_reproduction(run->folder, folder, *tolerance);
  if (found.metrics + found.files == 0) {
    return report(console, {{ErrorCode::kNoResults,
                             {},
                             "",
                             "nothing was compared: the run in '" + run->folder.string() +
                                 "' left no results",
                             "its recipe neither trains nor evaluates"}});
  }
  print_verdict(*run, rerun, folder, found, console);
  return exit_of(found.verdict);
}

}  // namespace runner
