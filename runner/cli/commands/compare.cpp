#include <memory>

#include <nlohmann/json.hpp>

#include "runner/cli/command.h"
#include "runner/report/comparison.h"
#include "runner/report/picture_folder.h"

namespace runner {
namespace {

struct CompareFlags {
  std::vector<std::string> runs;
  std::string out;  ///< empty: nothing is drawn
};

ExitCode compare(const CompareFlags& flags, Console& console) {
  if (flags.runs.size() < 2) {
    return report(console, {{ErrorCode::kUsage,
                             {},
                             "",
                             "a comparison takes two or more runs",
                             "name their folders, as in `retort compare " + flags.runs.front() + " outputs/…`"}});
  }
  std::vector<RecordedRun> runs;
  Diagnostics errors, warnings;
  for (const std::string& path : flags.runs) {
    auto run = read_run(path);
    if (run) runs.push_back(*std::move(run));
    else errors.insert(errors.end(), run.errors().begin(), run.errors().end());
  }
  if (!errors.empty()) return report(console, errors);
  Sources& sources = console.sources;
  const auto comparison = compare_runs(runs, sources, warnings);
  if (!comparison) return report(console, comparison.errors());
  warn(console, warnings);
  try {
    std::vector<std::string> pictures;
    if (!flags.out.empty()) {
      PictureFolder folder(flags.out);
      folder.write("model_comparison.svg", draw_comparison(*comparison));
      pictures = folder.written();
    }
    if (console.json) {
      nlohmann::ordered_json json = to_json(*comparison);
      json["pictures"] = pictures;
      print_result(console, "compare/1", json);
    } else {
      console.out << comparison_text(*comparison);
      for (const std::string& path : pictures) console.out << path << '\n';
    }
  } catch (const WriteError& error) {
    return report(console, {error.diagnostic()});
  }
  return ExitCode::kDone;
}

Invocation declare_compare() {
  const auto flags = std::make_shared<CompareFlags>();
  Invocation verb;
  verb.add({.name = "runs", .value = &flags->runs, .summary = "The folders of two or more runs", .required = true});
  verb.add(
      {.name = "--out", .value = &flags->out, .summary = "Draw model_comparison.svg into this folder", .type = "DIR"});
  verb.run = [flags](Console& console) { return compare(*flags, console); };
  return verb;
}

}  // namespace

const Command kCompareCommand = {"compare", "Compares the results and the recipes of runs.",
                                 "retort compare outputs/a outputs/b --out comparison", declare_compare};

}  // namespace runner
