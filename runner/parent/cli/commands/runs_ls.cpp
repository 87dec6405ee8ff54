#include <cmath>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "runner/parent/cli/commands/runs.h"
#include "runner/parent/report/table_text.h"
#include "runner/shared/text/printable.h"
#include "runner/shared/text/units.h"
#include "runner/shared/value/json_fields.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMuch = 200;  // reading this many runs takes a noticeable amount of time

/// Converts "2026-01-31T12:00:00+0000" to "2026-01-31 12:00:00".
std::string shown_time(std::string text) {
  text.resize(std::min<std::size_t>(text.size(), 19));
  if (text.size() > 10) text[10] = ' ';
  return text;
}

std::string shown_values(const std::vector<RunValue>& values) {
  std::string text;
  for (const RunValue& value : values) {
    const auto* number = std::get_if<double>(&value);
    text += (text.empty() ? "" : " ") + (number ? shown_number(*number) : run_value_text(value));
  }
  return text.empty() ? "–" : printable(text);
}

/// Returns the keys that get a column of their own in addition to the columns of every listing.
std::vector<std::size_t> further_columns(const RunListing& listing) {
  std::vector<std::size_t> columns;
  for (std::size_t k = 0; k < listing.keys.size(); ++k) {
    const std::string& name = listing.keys[k].name;
    const bool is_shown = name == "run" || name == "recipe" || name == "status" ||
                          name == "started" || name == "seconds" || name == "tag" ||
                          name == "source";
    const auto is_same = [&](std::size_t other) { return listing.keys[other].name == name; };
    if (!is_shown && std::ranges::none_of(columns, is_same)) columns.push_back(k);
  }
  return columns;
}

/// Returns the folder as shown in the table. For an evaluation, the folder is indented if the run
/// is listed above it; otherwise the run's folder is added.
std::string shown_folder(const RunListing& listing, const ListedRun& run) {
  const std::string& source = run.entry.source;
  if (source.empty()) return run.folder;
  const bool is_listed =
      std::ranges::any_of(listing.runs, [&](const ListedRun& one) { return one.folder == source; });
  return is_listed ? "  " + run.folder : run.folder + " of " + source;
}

std::string listing_text(const RunListing& listing, const TextStyle& style) {
  const std::vector<std::size_t> columns = further_columns(listing);
  std::vector<std::vector<std::string>> rows = {
      {"run", "status", "result", "recipe", "started", "time"}};
  for (const std::size_t k : columns) rows.front().push_back(printable(listing.keys[k].name));
  rows.front().push_back("tags");
  for (const ListedRun& run : listing.runs) {
    const RunEntry& entry = run.entry;
    const std::string result =
        entry.headline.empty() ? "–" : entry.headline + " " + shown_number(run.headline);
    rows.push_back({printable(shown_folder(listing, run)),
                    printable(entry.status) + (entry.smoke ? " (smoke)" : ""), printable(result),
                    printable(entry.recipe), printable(shown_time(entry.started)),
                    entry.seconds > 0 ? duration_text(entry.seconds) : "–"});
    for (const std::size_t k : columns) rows.back().push_back(shown_values(run.values[k]));
    std::string tags;
    for (const std::string& tag : entry.tags) tags += (tags.empty() ? "" : " ") + tag;
    rows.back().push_back(tags);
  }
  return table_text(rows, style.table_width());
}

Json run_value_json(const RunValue& value) {
  const auto* number = std::get_if<double>(&value);
  return number ? number_json(*number) : Json(std::get<std::string>(value));
}

Json listing_json(const RunListing& listing) {
  Json json = {{"all", listing.all}, {"runs", Json::array()}};
  for (const ListedRun& run : listing.runs) {
    const RunEntry& entry = run.entry;
    Json object = {{"run", run.folder},
                   {"recipe", entry.recipe},
                   {"status", entry.status},
                   {"started", entry.started},
                   {"seconds", entry.seconds},
                   {"device", entry.device},
                   {"smoke", entry.smoke},
                   {"tags", entry.tags},
                   {"source", entry.source.empty() ? Json(nullptr) : Json(entry.source)},
                   {"metric", entry.headline.empty() ? Json(nullptr) : Json(entry.headline)},
                   {"value", entry.headline.empty() ? Json(nullptr) : number_json(run.headline)},
                   {"problem", entry.problem.empty() ? Json(nullptr) : Json(entry.problem)},
                   {"values", Json::object()}};
    for (std::size_t k = 0; k < listing.keys.size(); ++k)
      object["values"][listing.keys[k].name] = values_json(run.values[k]);
    json["runs"].push_back(std::move(object));
  }
  return json;
}

Diagnostic two_filters(const std::string& second) {
  return {ErrorCode::kUsage,
          {},
          "",
          "'" + second + "' is a second filter",
          "join filters with & in one quoted argument: 'accuracy>0.7 & model.kind=lora'"};
}

}  // namespace

Json values_json(const std::vector<RunValue>& values) {
  if (values.empty()) return nullptr;
  if (values.size() == 1) return run_value_json(values.front());
  Json list = Json::array();
  for (const RunValue& value : values) list.push_back(run_value_json(value));
  return list;
}

Result<ListingRequest> listing_request(const RunsFlags& flags, Console& console) {
  ListingRequest request;
  std::string filter;
  for (const std::string& word : flags.words) {
    std::error_code ignored;
    if (std::filesystem::is_directory(word, ignored) || !looks_like_filter(word))
      request.folders.emplace_back(word);
    else if (!filter.empty()) return two_filters(word);
    else filter = word;
  }
  auto parsed = RunFilter::parse(filter, console.sources);
  if (!parsed) return parsed.errors();
  request.filter = *std::move(parsed);
  if (!console.is_quiet() && !console.json) {
    request.before_reading = [&console](const std::string& folder, std::size_t runs) {
      if (runs >= kMuch)
        console.err << "reading the records of " << runs << " runs in '" << printable(folder)
                    << "'\n";
    };
  }
  return request;
}

ExitCode list_recorded_runs(const RunsFlags& flags, Console& console) {
  auto request = listing_request(flags, console);
  if (!request) return report(console, request.errors());
  if (!flags.sort.empty()) request->keys.push_back(flags.sort);
  Diagnostics warnings;
  auto listing = list_runs(*request, run_index_folder(), warnings);
  if (!listing) return report(console, listing.errors());
  warn(console, warnings);
  if (!flags.sort.empty()) sort_runs(*listing, listing->keys.size() - 1, flags.is_reversed);
  else if (flags.is_reversed) std::ranges::reverse(listing->runs);
  group_evaluations(*listing);
  if (console.json) {
    print_result(console, "runs_ls/1", listing_json(*listing));
  } else {
    console.out << listing_text(*listing, console.style);
    if (listing->runs.empty() && !console.is_quiet())
      console.err << (listing->all == 0 ? "there are no runs here\n"
                                        : "none of the " + std::to_string(listing->all) +
                                              " runs matches the filter\n");
  }
  return ExitCode::kDone;
}

}  // namespace runner
