#include "runner/parent/report/comparison.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <map>

#include <nlohmann/json.hpp>

#include "runner/parent/config/provenance.h"
#include "runner/parent/config/yaml_reader.h"
#include "runner/parent/report/run_report.h"
#include "runner/parent/report/table_text.h"
#include "runner/parent/svg/plot.h"
#include "runner/shared/disk/file_digests.h"
#include "runner/shared/stage/family.h"
#include "runner/shared/text/join.h"
#include "runner/shared/text/printable.h"
#include "runner/shared/text/units.h"
#include "runner/shared/value/json_fields.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kLargestRecipe = 16 << 20;
constexpr std::size_t kLongestCell = 40;  // characters of a recipe's value in the table

/// Reads the recipe that the run recorded.
Result<Value> read_recipe(const RecordedRun& run, Sources& sources) {
  const auto text = real_file_system().read(run.recipe, kLargestRecipe);
  if (!text) {
    return Diagnostic{ErrorCode::kDamagedRecord,
                      {},
                      "",
                      "'" + run.recipe.string() + "' cannot be read",
                      "leave the run out"};
  }
  return read_yaml(sources.add(run.recipe.string(), *text));
}

std::string text_at(const Value& recipe, std::string_view key) {
  const Value* value = at_key(recipe, key);
  return value && value->text() ? *value->text() : "";
}

std::string data_name(const Value& recipe) {
  const std::string name = text_at(recipe, "data.name"), kind = text_at(recipe, "data.kind");
  if (!name.empty()) return name;
  return std::string(name_in_family(kind));
}

Diagnostic not_evaluated(const RunReport& report) {
  return {
      ErrorCode::kNoResults,
      {},
      "",
      "the run in '" + report.folder + "' was not evaluated: its status is '" + report.status + "'",
      "`retort resume " + report.folder + "` continues it, `retort evaluate " + report.folder +
          "` evaluates its trained network"};
}

const Value* at_path(const Value& root, const std::vector<std::string>& path) {
  const Value* at = &root;
  for (const std::string& key : path) at = at ? at->find(key) : nullptr;
  return at;
}

std::vector<Comparison::Field> recipe_differences(const std::vector<Value>& recipes) {
  std::vector<Comparison::Field> fields;
  std::vector<std::vector<std::string>> paths;
  for (std::size_t i = 1; i < recipes.size(); ++i) {
    for (const Difference& difference : differences(recipes[0], recipes[i])) {
      if (!affects_results(difference)) continue;
      if (std::ranges::count(paths, difference.path)) continue;
      paths.push_back(difference.path);
      Comparison::Field field{difference.key, {}};
      for (const Value& recipe : recipes) {
        const Value* value = at_path(recipe, difference.path);
        field.values.push_back(value ? std::optional(*value) : std::nullopt);
      }
      fields.push_back(std::move(field));
    }
  }
  return fields;
}

/// Maps the folder of each evaluation in `runs` to the folder of the run that it evaluated. If that
/// run is also in `runs`, its folder is spelled as in `runs`.
std::map<std::string, std::string> evaluated_runs(std::span<const RecordedRun> runs) {
  const auto whole = [](const std::filesystem::path& folder) {
    return std::filesystem::absolute(folder / "").lexically_normal();
  };
  std::map<std::string, std::string> evaluated;
  for (const RecordedRun& run : runs) {
    if (run.source.empty()) continue;
    const auto source = std::ranges::find_if(
        runs, [&](const RecordedRun& other) { return whole(other.folder) == whole(run.source); });
    evaluated[run.folder.string()] = source == runs.end() ? run.source : source->folder.string();
  }
  return evaluated;
}

void name_rows(std::vector<Comparison::Row>& rows,
               const std::map<std::string, std::string>& evaluated) {
  for (Comparison::Row& row : rows) {
    const bool shares_name = std::ranges::any_of(rows, [&](const Comparison::Row& other) {
      return other.recipe == row.recipe && other.folder != row.folder;
    });
    const bool is_only = std::ranges::count(rows, row.folder, &Comparison::Row::folder) == 1;
    const std::string node = is_only ? "" : ": " + row.evaluation.title;
    row.label = (shares_name ? row.folder : row.recipe) + node;
    const auto source = evaluated.find(row.folder);
    row.title = row.folder + (source == evaluated.end() ? "" : " of " + source->second) + node;
  }
}

std::string cell(const std::optional<Value>& value) {
  if (!value) return "–";
  const Json json = to_json(*value);
  return shortened(json.is_string() ? json.get<std::string>()
                                    : json.dump(-1, ' ', false, Json::error_handler_t::replace),
                   kLongestCell);
}

/// Returns the name under which an evaluation's accuracy is recorded, since accuracy over episodes
/// is not the same as accuracy over samples.
std::string accuracy_of(const RecordedEvaluation& evaluation) {
  return evaluation.episodes.empty() ? "evaluate/top1" : "evaluate/episode_accuracy";
}

/// Returns the accuracy names of all rows without duplicates.
std::vector<std::string> accuracies_of(const Comparison& comparison) {
  std::vector<std::string> names;
  for (const Comparison::Row& row : comparison.rows)
    if (std::string name = accuracy_of(row.evaluation);
        std::ranges::find(names, name) == names.end())
      names.push_back(std::move(name));
  return names;
}

/// Adds the measures in `report` to `comparison`, as those of its next run.
void add_measures(const RunReport& report, const std::string& recipe, Comparison& comparison) {
  const std::size_t run = comparison.folders.size();
  for (const RecordedMeasures& measures : report.measures) {
    if (has_label_sets(measures)) {
      Comparison::Row& row = comparison.multi_label.emplace_back();
      row.folder = report.folder;
      row.recipe = recipe;
      row.evaluation.node = measures.node;
      row.evaluation.title = measures.title;
    }
    for (const auto& [metric, value] : measures.values) {
      const std::string name = measures.title + ": " + metric;
      auto found = std::ranges::find(comparison.measures, name, &Comparison::Measure::name);
      if (found == comparison.measures.end()) found = comparison.measures.insert(found, {name, {}});
      found->values.resize(run);
      found->values.emplace_back(value);
    }
  }
}

std::string rows_text(const Comparison& comparison, const TextStyle& style) {
  std::vector<std::vector<std::string>> rows = {{"run"}};
  const std::vector<std::string> accuracies = accuracies_of(comparison);
  for (const std::string& name : accuracies) rows.front().push_back(name);
  for (const char* column : {"95% interval", "evaluate/mean_per_class", "evaluate/log_loss",
                             "samples", "recipe", "data", "time"})
    rows.front().emplace_back(column);
  for (const auto& [folder, recipe, data, seconds, evaluation, label, title] : comparison.rows) {
    rows.push_back({shortened(title, 60)});
    for (const std::string& name : accuracies)
      rows.back().push_back(name == accuracy_of(evaluation) ? percent(evaluation.accuracy) + "%"
                                                            : "–");
    for (std::string& cell : std::vector<std::string>{
             percent(evaluation.low) + "–" + percent(evaluation.high) + "%",
             percent(evaluation.mean_per_class) + "%", decimal(evaluation.loss, 4),
             std::to_string(evaluation.samples), shortened(recipe, 60), shortened(data, 30),
             seconds > 0 ? duration_text(seconds) : "–"})
      rows.back().push_back(std::move(cell));
  }
  std::string text = table_text(rows, style.table_width());
  const auto same_samples = [&](const Comparison::Row& row) {
    return row.evaluation.samples == comparison.rows.front().evaluation.samples;
  };
  if (!std::ranges::all_of(comparison.rows, same_samples))
    text += "\nThe runs were not evaluated on the same samples.\n";
  return text;
}

std::string measures_text(const Comparison& comparison, const TextStyle& style) {
  std::vector<std::vector<std::string>> rows = {{"other measurements"}};
  for (const std::string& folder : comparison.folders)
    rows.front().push_back(shortened(folder, kLongestCell));
  for (const auto& [name, values] : comparison.measures) {
    rows.push_back({printable(name)});
    for (const auto& value : values) rows.back().push_back(value ? decimal(*value, 4) : "–");
  }
  return table_text(rows, style.table_width());
}

/// Returns the last part of each key, or the whole key if another one ends in the same part.
std::vector<std::string> short_keys(const std::vector<Comparison::Field>& fields) {
  std::vector<std::string> keys;
  for (const Comparison::Field& field : fields)
    keys.push_back(field.key.substr(field.key.rfind('.') + 1));
  const std::vector<std::string> last = keys;
  for (std::size_t i = 0; i < keys.size(); ++i)
    if (std::ranges::count(last, last[i]) > 1) keys[i] = fields[i].key;
  return keys;
}

/// Labels the rows with the settings that differ, if a few words are enough to distinguish all
/// runs.
void label_by_settings(Comparison& comparison) {
  constexpr std::size_t kMostKeys = 3;
  if (comparison.differences.empty() || comparison.differences.size() > kMostKeys) return;
  const std::vector<std::string> keys = short_keys(comparison.differences);
  std::vector<std::string> labels;  // by run
  for (std::size_t run = 0; run < comparison.folders.size(); ++run) {
    std::string label;
    for (std::size_t i = 0; i < keys.size(); ++i)
      label += (i == 0 ? "" : ", ") + keys[i] + "=" + cell(comparison.differences[i].values[run]);
    if (std::ranges::find(labels, label) != labels.end()) return;
    labels.push_back(std::move(label));
  }
  for (Comparison::Row& row : comparison.rows) {
    const auto run = std::ranges::find(comparison.folders, row.folder) - comparison.folders.begin();
    const bool is_only =
        std::ranges::count(comparison.rows, row.folder, &Comparison::Row::folder) == 1;
    row.label =
        labels[static_cast<std::size_t>(run)] + (is_only ? "" : ": " + row.evaluation.title);
  }
}

}  // namespace

bool affects_results(const Difference& difference) {
  constexpr std::array<std::string_view, 3> kWithoutEffect = {"name", "run", "aliases"};
  return std::ranges::count(kWithoutEffect, difference.path.front()) == 0;
}

Result<Comparison> compare_runs(std::span<const RecordedRun> runs, Sources& sources,
                                Diagnostics& warnings) {
  Comparison comparison;
  std::vector<Value> recipes;
  Diagnostics errors, missing;
  const auto add = [](const Diagnostics& from, Diagnostics& to) {
    to.insert(to.end(), from.begin(), from.end());
  };
  for (const RecordedRun& run : runs) {
    const auto report = read_report(run);
    auto recipe = read_recipe(run, sources);
    if (!report) add(report.errors(), errors);
    if (!recipe) add(recipe.errors(), errors);
    if (!report || !recipe) continue;
    if (report->evaluations.empty() && report->measures.empty()) {
      missing.push_back(not_evaluated(*report));
      continue;
    }
    for (const RecordedEvaluation& evaluation : report->evaluations) {
      comparison.rows.push_back({report->folder, text_at(*recipe, "name"), data_name(*recipe),
                                 report->seconds, evaluation, ""});
    }
    add_measures(*report, text_at(*recipe, "name"), comparison);
    comparison.folders.push_back(report->folder);
    comparison.remarks.push_back(report->remarks);
    recipes.push_back(*std::move(recipe));
  }
  if (!errors.empty()) return errors;
  if (comparison.folders.size() < 2) return missing;
  for (Diagnostic& one : missing) {
    one.severity = Severity::kWarning;
    warnings.push_back(std::move(one));
  }
  for (Comparison::Measure& measure : comparison.measures)
    measure.values.resize(comparison.folders.size());
  for (std::vector<Comparison::Row>* rows : {&comparison.rows, &comparison.multi_label})
    name_rows(*rows, evaluated_runs(runs));
  comparison.differences = recipe_differences(recipes);
  label_by_settings(comparison);
  return comparison;
}

Result<Comparison> only_node(Comparison comparison, const std::string& node) {
  const std::string prefix = node + ": ";
  std::vector<std::string> names;
  const auto add = [&](const std::string& name) {
    if (std::ranges::count(names, name) == 0) names.push_back(name);
  };
  for (const Comparison::Row& row : comparison.rows) add(row.evaluation.node);
  for (const Comparison::Measure& measure : comparison.measures)
    add(measure.name.substr(0, measure.name.find(": ")));
  for (std::vector<Comparison::Row>* rows : {&comparison.rows, &comparison.multi_label}) {
    std::erase_if(*rows, [&](const Comparison::Row& row) {
      return row.evaluation.node != node && row.evaluation.title != node;
    });
  }
  std::erase_if(comparison.measures, [&](const Comparison::Measure& measure) {
    return !measure.name.starts_with(prefix);
  });
  if (comparison.rows.empty() && comparison.measures.empty())
    return Diagnostic{ErrorCode::kUsage,
                      {},
                      "",
                      "none of the compared runs has an evaluation '" + node + "'",
                      "name one of " + listed(names, names.size(), "'")};
  return comparison;
}

void sort_rows(Comparison& comparison, const std::string& column) {
  // Smaller is better.
  const auto rank = [&](const Comparison::Row& row) {
    if (column == "loss") return row.evaluation.loss;
    if (column == "time")
      return row.seconds > 0 ? row.seconds : std::numeric_limits<double>::infinity();
    return column == "per_class" ? -row.evaluation.mean_per_class : -row.evaluation.accuracy;
  };
  std::ranges::stable_sort(comparison.rows, {}, rank);
}

std::string comparison_text(const Comparison& comparison, const TextStyle& style) {
  std::string text = comparison.rows.empty() ? "" : rows_text(comparison, style);
  if (!comparison.measures.empty())
    text += (text.empty() ? "" : "\n") + measures_text(comparison, style);
  for (std::size_t i = 0; i < comparison.remarks.size(); ++i) {
    for (const std::string& remark : comparison.remarks[i])
      text += "\n" + printable(comparison.folders[i]) + ": " + printable(remark) + "\n";
  }
  if (comparison.differences.empty()) return text + "\nThe recipes are the same.\n";
  std::vector<std::vector<std::string>> rows = {{"what differs"}};
  for (const std::string& folder : comparison.folders)
    rows.front().push_back(shortened(folder, kLongestCell));
  for (const auto& [key, values] : comparison.differences) {
    rows.push_back({printable(key)});
    for (const auto& value : values) rows.back().push_back(cell(value));
  }
  return text + "\n" + table_text(rows, style.table_width());
}

Json to_json(const Comparison& comparison) {
  Json json = {
      {"runs", Json::array()}, {"measures", Json::array()}, {"differences", Json::array()}};
  for (const auto& [folder, recipe, data, seconds, evaluation, label, title] : comparison.rows) {
    json["runs"].push_back({{"run", folder},
                            {"node", evaluation.node},
                            {"title", evaluation.title},
                            {"recipe", recipe},
                            {"data", data},
                            {"accuracy", evaluation.accuracy},
                            {"accuracy_interval", {evaluation.low, evaluation.high}},
                            {"mean_per_class", evaluation.mean_per_class},
                            {"loss", evaluation.loss},
                            {"samples", evaluation.samples},
                            {"seconds", seconds}});
  }
  for (const auto& [name, values] : comparison.measures) {
    Json by_run = Json::object();
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (values[i]) by_run[comparison.folders[i]] = number_json(*values[i]);
    }
    json["measures"].push_back({{"name", name}, {"values", std::move(by_run)}});
  }
  for (std::size_t i = 0; i < comparison.remarks.size(); ++i)
    if (!comparison.remarks[i].empty())
      json["remarks"][comparison.folders[i]] = comparison.remarks[i];
  for (const auto& [key, values] : comparison.differences) {
    Json by_run = Json::object();
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (values[i]) by_run[comparison.folders[i]] = to_json(*values[i]);
    }
    json["differences"].push_back({{"key", key}, {"values", std::move(by_run)}});
  }
  return json;
}

Drawing draw_comparison(const Comparison& comparison) {
  constexpr std::size_t kLongestLabel = 32;
  constexpr double kAcross = 0.82, kDown = 0.58;  // projections of a label slanted at 35 degrees
  const auto bars = static_cast<double>(comparison.rows.size());
  const double width = std::max(320.0, 90 * bars);
  std::string description = "Accuracy on the test samples";
  double widest = 0;
  for (const Comparison::Row& row : comparison.rows) {
    description += "; " + row.label + " " + percent(row.evaluation.accuracy) + "%";
    widest = std::max(widest, Drawing::small_width(shortened(row.label, kLongestLabel)));
  }
  const double left = std::max(70.0, kAcross * widest - width / bars / 2 + 10),
               below = 16 + kDown * widest;
  Drawing drawing(left + width + 30, 56 + 300 + below + 30,
                  "Comparison of " + std::to_string(comparison.rows.size()) + " evaluations",
                  description);
  Ticks places;  // a bar's center is a whole number; its label is slanted and drawn below it
  places.low = 0.4;
  places.high = bars + 0.6;
  const Frame frame{left, 56, width, 300};
  Plot plot(drawing, frame, {"", places}, {"accuracy, %", nice_ticks(0, 100, 12)},
            "Accuracy on the test samples");
  for (std::size_t i = 0; i < comparison.rows.size(); ++i) {
    const Comparison::Row& row = comparison.rows[i];
    const double x = static_cast<double>(i) + 1, half = 0.32;
    const RecordedEvaluation& evaluation = row.evaluation;
    plot.bar(x - half, x + half, 100 * evaluation.accuracy, 1,
             row.label + ": " + percent(evaluation.accuracy) + "%");
    plot.interval(x, 100 * evaluation.low, 100 * evaluation.high);
    const Point top = plot.at(x, 100 * std::max(evaluation.accuracy, evaluation.high));
    drawing.text({top.x, top.y - 6}, percent(evaluation.accuracy) + "%", Align::kMiddle, "small");
    drawing.text({top.x + 4, frame.top + frame.height + 16}, shortened(row.label, kLongestLabel),
                 Align::kEnd, "small", -35);
  }
  drawing.text({10, frame.top + frame.height + below + 20}, "lines: 95% interval (Wilson)",
               Align::kStart, "small");
  return drawing;
}

}  // namespace runner
