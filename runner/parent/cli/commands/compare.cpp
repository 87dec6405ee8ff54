#include <algorithm>
#include <memory>

#include <nlohmann/json.hpp>

#include "runner/parent/cli/command.h"
#include "runner/parent/report/comparison.h"
#include "runner/parent/report/episode_pictures.h"
#include "runner/parent/report/paired_comparison.h"
#include "runner/parent/report/paired_predictions.h"
#include "runner/parent/report/training_picture.h"
#include "runner/shared/text/printable.h"

namespace runner {
namespace {

struct CompareFlags {
  RunSelection runs;
  std::string node;  ///< the evaluation to compare; empty: all
  std::string sort;  ///< the column to sort by; empty: keep the given order
  std::string out;   ///< the folder for plots; empty: no plots
  bool paired = false;
  std::int64_t seed = 0;  ///< seed for the bootstrap of a paired comparison
};

/// The tests of a paired comparison: over episodes for few-shot models, otherwise over individual
/// samples.
struct PairedTests {
  std::vector<PairedDifference> episodes;
  std::vector<PairedClassifiers> samples;

  std::string text(const TextStyle& style) const {
    return samples.empty() ? paired_text(episodes, style) : paired_text(samples, style);
  }
  nlohmann::ordered_json json() const {
    return samples.empty() ? to_json(episodes) : to_json(samples);
  }
};

Result<PairedTests> paired_tests(const Comparison& comparison, std::uint64_t seed) {
  PairedTests tests;
  const bool has_episodes = std::ranges::any_of(
      comparison.rows, [](const Comparison::Row& row) { return !row.evaluation.episodes.empty(); });
  if (has_episodes) {
    auto differences = paired_differences(comparison);
    if (!differences) return differences.errors();
    tests.episodes = *std::move(differences);
  } else {
    auto pairs = paired_classifiers(comparison, seed);
    if (!pairs) return pairs.errors();
    tests.samples = *std::move(pairs);
  }
  return tests;
}

ExitCode compare(const CompareFlags& flags, Console& console) {
  if (flags.seed != 0 && !flags.paired) {
    return report(console, {{ErrorCode::kUsage,
                             {},
                             "",
                             "--seed is only for --paired, which uses it for the bootstrap",
                             "add --paired, or leave --seed out"}});
  }
  const auto runs = selected_runs(flags.runs, console);
  if (!runs) return report(console, runs.errors());
  if (runs->size() < 2) {
    return report(console, {{ErrorCode::kUsage,
                             {},
                             "",
                             "a comparison needs two or more runs",
                             "name their folders, or a folder of runs, as in `retort compare " +
                                 flags.runs.folders.front() + " outputs/…`"}});
  }
  Diagnostics warnings;
  auto comparison = compare_runs(*runs, console.sources, warnings);
  if (comparison && !flags.node.empty()) comparison = only_node(*std::move(comparison), flags.node);
  if (!comparison) return report(console, comparison.errors());
  warn(console, warnings);
  const bool can_be_paired = !comparison->rows.empty() || comparison->multi_label.size() > 1;
  if ((flags.paired && !can_be_paired) ||
      (comparison->rows.empty() && (!flags.sort.empty() || !flags.out.empty()))) {
    return report(console, {{ErrorCode::kNoResults,
                             {},
                             "",
                             "none of the runs evaluated a classifier, so there is no accuracy to "
                             "sort by, test or draw",
                             can_be_paired ? "leave out --sort and --out"
                                           : "leave out --sort, --paired and --out"}});
  }
  if (!flags.sort.empty()) sort_rows(*comparison, flags.sort);
  PairedTests tests;
  if (flags.paired) {
    auto made = paired_tests(*comparison, static_cast<std::uint64_t>(flags.seed));
    if (!made) return report(console, made.errors());
    tests = *std::move(made);
  }
  try {
    std::vector<std::string> pictures;
    if (!flags.out.empty()) {
      DrawingFolder folder(flags.out);
      folder.write("model_comparison.svg", draw_comparison(*comparison).svg());
      for (std::size_t i = 0; i < tests.episodes.size(); ++i) {
        const std::string number = tests.episodes.size() > 1 ? "." + std::to_string(i + 1) : "";
        folder.write("paired_differences" + number + ".svg",
                     draw_difference(tests.episodes[i]).svg());
      }
      pictures = folder.written();
    }
    if (console.json) {
      nlohmann::ordered_json json = to_json(*comparison);
      if (flags.paired) json["paired"] = tests.json();
      json["pictures"] = pictures;
      print_result(console, "compare/1", json);
    } else {
      console.out << comparison_text(*comparison, console.style);
      if (flags.paired) console.out << '\n' << tests.text(console.style);
      for (const std::string& path : pictures) console.out << printable(path) << '\n';
    }
  } catch (const WriteError& error) {
    return report(console, {error.diagnostic()});
  }
  return ExitCode::kDone;
}

Invocation declare_compare() {
  const auto flags = std::make_shared<CompareFlags>();
  Invocation verb;
  add_runs(verb, flags->runs, "The folders of two or more runs, or folders of runs");
  verb.add({.name = "--node",
            .value = &flags->node,
            .summary = "Compare only the evaluations of this node, such as evaluate",
            .type = "NODE"});
  verb.add({.name = "--sort",
            .value = &flags->sort,
            .summary = "Sort by this column, best first",
            .type = "COLUMN",
            .choices = {"accuracy", "per_class", "loss", "time"}});
  verb.add({.name = "--paired",
            .value = &flags->paired,
            .summary = "Test how each run differs from the first: classifiers sample by sample, "
                       "with McNemar's test, and multi-label models by whether all labels of a "
                       "sample are right; few-shot models episode by episode"});
  verb.add({.name = "--seed",
            .value = &flags->seed,
            .summary = "With --paired: the random seed for the bootstrap intervals",
            .type = "N",
            .shows_default = true});
  verb.add({.name = "--out",
            .value = &flags->out,
            .summary = "Save plots of the comparison to this folder",
            .type = "DIR",
            .is_written = true});
  verb.run = [flags](Console& console) { return compare(*flags, console); };
  return verb;
}

}  // namespace

const Command kCompareCommand = {
    "compare", "Compares the results and recipes of runs.",
    "retort compare outputs/2026-01-31 --sort accuracy --out comparison", declare_compare};

}  // namespace runner
