#include "runner/parent/report/paired_comparison.h"

#include <array>
#include <cmath>
#include <cstdio>

#include <nlohmann/json.hpp>

#include "runner/parent/report/table_text.h"
#include "runner/parent/svg/plot.h"
#include "runner/shared/text/units.h"

namespace runner {
namespace {

PairedDifference difference(const Comparison::Row& run, const Comparison::Row& base) {
  const std::vector<double>&mine = run.evaluation.episodes, &theirs = base.evaluation.episodes;
  const auto count = static_cast<double>(mine.size());
  PairedDifference result{.run = run.title, .base = base.title};
  for (std::size_t i = 0; i < mine.size(); ++i) {
    result.of_episodes.push_back(mine[i] - theirs[i]);
    result.mean += result.of_episodes.back() / count;
    ++(mine[i] > theirs[i] ? result.better : mine[i] < theirs[i] ? result.worse : result.equal);
  }
  double squares = 0;
  for (const double one : result.of_episodes) squares += (one - result.mean) * (one - result.mean);
  const double error = std::sqrt(squares / (count - 1) / count);
  result.low = result.mean - 1.96 * error;
  result.high = result.mean + 1.96 * error;
  if (error > 0) result.p_value = std::erfc(std::abs(result.mean) / error / std::sqrt(2.0));
  else result.p_value = result.mean == 0 ? 1 : 0;
  return result;
}

Diagnostics problems(const Comparison& comparison) {
  Diagnostics errors;
  const RecordedEvaluation& first = comparison.rows.front().evaluation;
  for (const Comparison::Row& row : comparison.rows) {
    const RecordedEvaluation& evaluation = row.evaluation;
    if (evaluation.episodes.empty()) {
      errors.push_back(
          {ErrorCode::kNoResults,
           {},
           "",
           "'" + row.title + "' was not evaluated over episodes, so it cannot be paired",
           "leave it out, or compare without --paired"});
    } else if (evaluation.episodes.size() < kLeastEpisodes) {
      errors.push_back({ErrorCode::kNoResults,
                        {},
                        "",
                        "'" + row.title + "' was evaluated over " +
                            std::to_string(evaluation.episodes.size()) +
                            " episodes, too few to test a difference",
                        "evaluate it over " + std::to_string(kLeastEpisodes) + " or more"});
    } else if (evaluation.drawn != first.drawn ||
               evaluation.episodes.size() != first.episodes.size()) {
      errors.push_back(
          {ErrorCode::kOptionConflict,
           {},
           "",
           "'" + row.title + "' was evaluated over different episodes than '" +
               comparison.rows.front().title + "'",
           "evaluate both on the same data with the same seed, number of episodes, ways, shots and "
           "queries"});
    }
  }
  return errors;
}

std::string signed_percent(double share) {
  return (share < 0 ? "" : "+") + decimal(100 * share, 2) + "%";
}

std::string short_number(double value) {
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%.2g", value);
  return text.data();
}

}  // namespace

Result<std::vector<PairedDifference>> paired_differences(const Comparison& comparison) {
  if (Diagnostics errors = problems(comparison); !errors.empty()) return errors;
  std::vector<PairedDifference> result;
  for (std::size_t i = 1; i < comparison.rows.size(); ++i)
    result.push_back(difference(comparison.rows[i], comparison.rows.front()));
  return result;
}

std::string paired_text(const std::vector<PairedDifference>& differences, const TextStyle& style) {
  std::vector<std::vector<std::string>> rows = {
      {"over the same episodes", "difference", "95% interval", "p", "better", "worse", "equal"}};
  for (const PairedDifference& one : differences) {
    rows.push_back(
        {shortened(one.run, 60) + " against " + shortened(one.base, 60), signed_percent(one.mean),
         signed_percent(one.low) + " to " + signed_percent(one.high), short_number(one.p_value),
         std::to_string(one.better), std::to_string(one.worse), std::to_string(one.equal)});
  }
  return table_text(rows, style.table_width());
}

nlohmann::ordered_json to_json(const std::vector<PairedDifference>& differences) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const PairedDifference& one : differences) {
    json.push_back({{"run", one.run},
                    {"base", one.base},
                    {"difference", one.mean},
                    {"interval", {one.low, one.high}},
                    {"p_value", one.p_value},
                    {"better", one.better},
                    {"worse", one.worse},
                    {"equal", one.equal}});
  }
  return json;
}

}  // namespace runner
