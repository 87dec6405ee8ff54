#include "runner/parent/serve/run_list_document.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <set>

#include "runner/parent/registry/run_entry.h"
#include "runner/parent/report/main_metric.h"
#include "runner/shared/text/join.h"
#include "runner/shared/text/percent_encoding.h"
#include "runner/shared/text/units.h"

namespace runner {
namespace {

constexpr std::size_t kRowsOfPage = 100;

/// The columns that can be sorted by, in the order of the table: the field's value and the heading.
constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kSorted = {
    {{"run", "run"},
     {"recipe", "recipe"},
     {"state", "state"},
     {"result", "result"},
     {"started", "started"},
     {"time", "time"}}};
constexpr std::string_view kDefaultSort = "started";

/// A row of the list: a run or a sweep.
struct ListRow {
  std::string name, address, recipe, state;
  std::string metric = {};  // empty: nothing was measured
  double value = 0;
  std::string started = {};
  double seconds = 0;
  const ListedRun* run = nullptr;  // null: a sweep
  std::size_t trials = 0;          // of a sweep
};

ListRow row_of(const ListedRun& run, const std::string& id) {
  const RunEntry& entry = run.entry;
  return {.name = run.folder,
          .address = "/run/" + id,
          .recipe = entry.recipe,
          .state = entry.status + (entry.smoke ? " (smoke)" : ""),
          .metric = entry.headline,
          .value = run.headline,
          .started = entry.started,
          .seconds = entry.seconds,
          .run = &run};
}

/// True if `a` is a better value of the metric than `b`.
bool is_better(const std::string& metric, double a, double b) {
  return is_smaller_better(metric) ? a < b : a > b;
}

ListRow row_of(const CatalogSweep& sweep, const Catalog& catalog) {
  ListRow row{.name = sweep.folder,
              .address = "/sweep/" + sweep.id,
              .recipe = "",
              .state = "",
              .trials = sweep.trials.size()};
  std::map<std::string, std::size_t> states;
  for (const std::size_t place : sweep.trials) {
    const ListedRun& trial = catalog.runs[place];
    ++states[trial.entry.status];
    row.seconds += trial.entry.seconds;
    if (row.recipe.empty()) row.recipe = trial.entry.recipe;
    if (row.started.empty() || trial.entry.started < row.started) row.started = trial.entry.started;
    if (trial.entry.headline.empty() || std::isnan(trial.headline)) continue;
    if (row.metric.empty() ||
        (row.metric == trial.entry.headline && is_better(row.metric, trial.headline, row.value))) {
      row.metric = trial.entry.headline;
      row.value = trial.headline;
    }
  }
  for (const auto& [state, count] : states)
    row.state += (row.state.empty() ? "" : ", ") + std::to_string(count) + " " + state;
  return row;
}

/// The list that a request's query selects.
struct ListRequest {
  std::string text, state, recipe, sort;
  bool has_trials = false, is_falling = true;
  std::size_t page = 1;
};

ListRequest list_request_of(const PageRequest& request) {
  ListRequest wanted{.text = request.field("text"),
                     .state = request.field("state"),
                     .recipe = request.field("recipe"),
                     .sort = request.field("sort"),
                     .has_trials = request.field("trials") == "listed"};
  if (std::ranges::none_of(kSorted, [&](const auto& one) { return one.first == wanted.sort; }))
    wanted.sort = kDefaultSort;
  const std::string order = request.field("order"), page = request.field("page");
  wanted.is_falling = order.empty() ? wanted.sort == kDefaultSort : order == "down";
  std::from_chars(page.data(), page.data() + page.size(), wanted.page);
  return wanted;
}

/// Returns the address of another list, with the same choices except for those given.
std::string address_of(const ListRequest& wanted, std::string_view sort, bool is_falling,
                       std::size_t page, std::string address = "/?") {
  const auto add = [&](std::string_view name, std::string_view value) {
    if (!value.empty())
      address.append(address.ends_with('?') ? "" : "&")
          .append(name)
          .append("=")
          .append(percent_encoded(value));
  };
  add("text", wanted.text);
  add("state", wanted.state);
  add("recipe", wanted.recipe);
  add("trials", wanted.has_trials ? "listed" : "");
  add("sort", sort);
  add("order", is_falling ? "down" : "up");
  add("page", page > 1 ? std::to_string(page) : "");
  return address;
}

bool has_text(const ListRow& row, const std::string& text) {
  const auto has = [&](const std::string& part) { return part.find(text) != part.npos; };
  return has(row.name) || has(row.recipe) || has(row.state) || has(row.metric) ||
         (row.run && std::ranges::any_of(row.run->entry.tags, has));
}

/// Chooses the rows of a list.
class RowChoice {
 public:
  /// `folders` contains the runs that the text matches if it is a filter.
  RowChoice(const Catalog& catalog, const ListRequest& wanted,
            const std::optional<std::set<std::string>>& folders)
      : catalog_(catalog), wanted_(wanted), folders_(folders) {}

  std::vector<ListRow> rows() const {
    std::vector<ListRow> rows;
    for (std::size_t i = 0; i < catalog_.runs.size(); ++i) {
      if (catalog_.sweep_of[i] && !wanted_.has_trials) continue;
      ListRow row = row_of(catalog_.runs[i], catalog_.ids[i]);
      if (takes(row, {i})) rows.push_back(std::move(row));
    }
    for (const auto& sweep : catalog_.sweeps) {
      ListRow row = row_of(*sweep, catalog_);
      if (takes(row, sweep->trials)) rows.push_back(std::move(row));
    }
    return rows;
  }

 private:
  /// A sweep is included if any of its trials has the state and matches the filter.
  bool takes(const ListRow& row, const std::vector<std::size_t>& runs) const {
    if (!wanted_.recipe.empty() && row.recipe != wanted_.recipe) return false;
    const auto is_wanted = [&](std::size_t place) {
      const ListedRun& run = catalog_.runs[place];
      return (wanted_.state.empty() || run.entry.status == wanted_.state) &&
             (!folders_ || folders_->contains(run.folder));
    };
    if (std::ranges::none_of(runs, is_wanted)) return false;
    return folders_ || wanted_.text.empty() || has_text(row, wanted_.text);
  }

  const Catalog& catalog_;
  const ListRequest& wanted_;
  const std::optional<std::set<std::string>>& folders_;
};

/// Sorts by a column, best results first. Equal rows are sorted by name.
void sort_list(std::vector<ListRow>& rows, const ListRequest& wanted) {
  const auto by = [&](const auto& key) {
    std::ranges::stable_sort(rows, [&](const ListRow& a, const ListRow& b) {
      return wanted.is_falling ? key(b) < key(a) : key(a) < key(b);
    });
  };
  std::ranges::sort(rows, {}, &ListRow::name);
  if (wanted.sort == "run") by([](const ListRow& row) { return std::string_view(row.name); });
  if (wanted.sort == "recipe") by([](const ListRow& row) { return std::string_view(row.recipe); });
  if (wanted.sort == "state") by([](const ListRow& row) { return std::string_view(row.state); });
  if (wanted.sort == "started")
    by([](const ListRow& row) { return std::string_view(row.started); });
  if (wanted.sort == "time") by([](const ListRow& row) { return row.seconds; });
  if (wanted.sort != "result") return;
  by([](const ListRow& row) {
    const bool is_absent = row.metric.empty() || std::isnan(row.value);
    const double rank = is_smaller_better(row.metric) ? row.value : -row.value;
    return std::tuple(is_absent, std::string_view(row.metric), is_absent ? 0 : rank);
  });
}

std::string bytes_cell(std::int64_t bytes) { return bytes > 0 ? size_text(bytes) : "–"; }

std::vector<std::string> cells_of(const ListRow& row, RunCatalog& catalog) {
  std::string started = row.started.substr(0, 19);
  if (started.size() > 10) started[10] = ' ';
  const RunFacts facts = row.run ? catalog.facts(*row.run) : RunFacts{};
  std::string state = row.state;
  if (row.run && !row.run->entry.problem.empty()) state += ": " + row.run->entry.problem;
  return {row.run ? row.name : row.name + " (sweep)",
          row.recipe,
          std::move(state),
          row.metric.empty() ? "–" : row.metric + " " + shown_number(row.value),
          std::move(started),
          row.seconds > 0 ? duration_text(row.seconds) : "–",
          facts.curve,
          bytes_cell(facts.planned_bytes),
          bytes_cell(facts.peak_bytes),
          row.run ? join(row.run->entry.tags, " ") : ""};
}

Table list_table_of(std::span<const ListRow> rows, const ListRequest& wanted, RunCatalog& catalog) {
  Table table{"Runs and sweeps", {{}}, false};
  for (const auto& [key, heading] : kSorted) {
    const bool is_sorted = wanted.sort == key;
    const bool is_falling = is_sorted ? !wanted.is_falling : key == kDefaultSort;
    table.links[{0, table.rows[0].size()}] = address_of(wanted, key, is_falling, 1);
    table.rows[0].push_back(std::string(heading) +
                            (is_sorted ? wanted.is_falling ? " ▼" : " ▲" : ""));
  }
  for (const char* heading : {"curve", "planned memory", "peak memory", "tags"})
    table.rows[0].emplace_back(heading);
  for (const ListRow& row : rows) {
    table.links[{table.rows.size(), 0}] = row.address;
    table.rows.push_back(cells_of(row, catalog));
  }
  return table;
}

/// Returns the choices for a field: any, and each value that occurs in a run.
template <typename Value>
std::vector<std::pair<std::string, std::string>> choices_of(const Catalog& catalog,
                                                            const Value& value) {
  std::set<std::string> values;
  for (const ListedRun& run : catalog.runs) values.insert(value(run.entry));
  values.erase("");
  std::vector<std::pair<std::string, std::string>> choices = {{"", "any"}};
  for (const std::string& one : values) choices.emplace_back(one, one);
  return choices;
}

Form form_of(const Catalog& catalog, const ListRequest& wanted) {
  Form form{"/", {}, "Filter"};
  form.fields = {{"text", "name, or filter such as accuracy>0.7", wanted.text},
                 {"state", "state", wanted.state,
                  choices_of(catalog, [](const RunEntry& entry) { return entry.status; })},
                 {"recipe", "recipe", wanted.recipe,
                  choices_of(catalog, [](const RunEntry& entry) { return entry.recipe; })},
                 {"trials",
                  "trials",
                  wanted.has_trials ? "listed" : "",
                  {{"", "in their sweeps"}, {"listed", "listed too"}}},
                 {"sort", "", wanted.sort},
                 {"order", "", wanted.is_falling ? "down" : "up"}};
  return form;
}

Links pages_of(const ListRequest& wanted, std::size_t pages) {
  Links links{"Pages", {}};
  const auto address = [&](std::size_t page) {
    return address_of(wanted, wanted.sort, wanted.is_falling, page);
  };
  if (wanted.page > 1) {
    links.links.emplace_back("first", address(1));
    links.links.emplace_back("previous", address(wanted.page - 1));
  }
  links.links.emplace_back("page " + std::to_string(wanted.page) + " of " + std::to_string(pages),
                           "");
  if (wanted.page < pages) {
    links.links.emplace_back("next", address(wanted.page + 1));
    links.links.emplace_back("last", address(pages));
  }
  return links;
}

}  // namespace

std::string run_list_events(const PageRequest& request) {
  const ListRequest wanted = list_request_of(request);
  return address_of(wanted, wanted.sort, wanted.is_falling, wanted.page, "/events?");
}

Document run_list_document(RunCatalog& catalog, const PageRequest& request) {
  const auto contents = catalog.contents();
  ListRequest wanted = list_request_of(request);
  Document document{.title = "Runs", .blocks = {}};
  document.add(form_of(*contents, wanted));
  std::optional<std::set<std::string>> folders;
  if (looks_like_filter(wanted.text)) {
    auto matching = catalog.matching(wanted.text);
    if (matching) folders = *std::move(matching);
    else document.say("The filter is not valid: " + matching.errors().front().message);
  }
  std::vector<ListRow> rows = RowChoice(*contents, wanted, folders).rows();
  sort_list(rows, wanted);
  const std::size_t pages = std::max<std::size_t>(1, (rows.size() + kRowsOfPage - 1) / kRowsOfPage);
  wanted.page = std::clamp<std::size_t>(wanted.page, 1, pages);
  document.say(
      counted(contents->runs.size(), "run") + ", " + counted(contents->sweeps.size(), "sweep") +
      "; " + counted(rows.size(), "row") + (rows.size() == 1 ? " matches." : " match.") +
      (contents->problem.empty() ? "" : " The folder cannot be read: " + contents->problem));
  const std::span<const ListRow> all = rows;
  const std::size_t begin = (wanted.page - 1) * kRowsOfPage;
  document.add(list_table_of(all.subspan(begin, std::min(kRowsOfPage, rows.size() - begin)), wanted,
                             catalog));
  document.add(pages_of(wanted, pages));
  return document;
}

}  // namespace runner
