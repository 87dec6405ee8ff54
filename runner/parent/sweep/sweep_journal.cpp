#include "runner/parent/sweep/sweep_journal.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <stdexcept>
#include <utility>

#include <unistd.h>
#include <nlohmann/json.hpp>

#include "runner/parent/config/compose.h"
#include "runner/parent/config/yaml_reader.h"
#include "runner/parent/record/run_summary.h"
#include "runner/shared/disk/descriptor.h"
#include "runner/shared/protocol/event.h"
#include "runner/shared/text/join.h"
#include "runner/shared/value/json_fields.h"
#include "runner/shared/value/parse_json.h"

namespace runner {

std::optional<std::size_t> Asha::rung_at(std::int64_t values) const {
  if (options_.last && values > *options_.last) return std::nullopt;
  std::int64_t at = options_.first;
  for (std::size_t rung = 0;; ++rung) {
    if (at == values) return rung;
    if (at > values / options_.factor) return std::nullopt;
    at *= options_.factor;
  }
}

bool Asha::stops(const RungValue& reached) {
  std::vector<double>& values = values_[reached.rung];
  const auto is_better = [&](double other) {
    if (std::isnan(other) || std::isnan(reached.value)) return !std::isnan(other);
    return is_smaller_better_ ? other < reached.value : other > reached.value;
  };
  const std::int64_t better = std::ranges::count_if(values, is_better);
  values.push_back(reached.value);
  return better >= std::max<std::int64_t>(1, std::ssize(values) / options_.factor);
}

namespace {

constexpr std::array<std::string_view, 6> kTrialStates = {"waiting", "running",     "finished",
                                                          "failed",  "interrupted", "stopped"};

}  // namespace

std::string_view name(TrialState state) { return kTrialStates[static_cast<std::size_t>(state)]; }

std::optional<TrialState> trial_state_named(std::string_view name) {
  const auto* const found = std::ranges::find(kTrialStates, name);
  if (found == kTrialStates.end()) return std::nullopt;
  return static_cast<TrialState>(found - kTrialStates.begin());
}

std::pair<std::string, std::string> key_and_value(const std::string& setting) {
  const std::size_t begin = setting.find_first_not_of("+~");
  if (begin == setting.npos) return {setting, ""};
  const std::size_t equals = setting.find('=', begin);
  if (equals == setting.npos) return {setting.substr(begin), setting[0] == '~' ? "~" : ""};
  return {setting.substr(begin, equals - begin), setting.substr(equals + 1)};
}

std::map<std::string, std::string> settings_of(const Trial& trial) {
  std::map<std::string, std::string> settings;
  for (const std::string& setting : trial.settings) {
    auto [key, value] = key_and_value(setting);
    settings[std::move(key)] = std::move(value);
  }
  return settings;
}

std::string own_settings(const std::vector<Trial>& trials, std::uint64_t number) {
  const auto is_of_all = [&](const std::string& setting) {
    return std::ranges::all_of(trials, [&](const Trial& trial) {
      return std::ranges::find(trial.settings, setting) != trial.settings.end();
    });
  };
  std::vector<std::string> own;
  for (const std::string& setting : trials[number].settings)
    if (!is_of_all(setting)) own.push_back(setting);
  return own.empty() ? "" : " (" + join(own, " ") + ")";
}

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using Fields = JsonFields<Json>;

std::string journal_line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json to_json(const SweepPlan& plan) {
  Json trials = Json::array();
  for (const Trial& trial : plan.trials)
    trials.push_back(
        {{"number", trial.number}, {"hash", trial.hash}, {"settings", trial.settings}});
  Json json = {{"sweep", 1},
               {"build", build_id()},
               {"recipe", plan.recipe},
               {"overrides", plan.overrides},
               {"folder", plan.folder.string()},
               {"boot", plan.boot}};
  if (!plan.recipe_folder.empty()) json["recipe_folder"] = plan.recipe_folder.string();
  if (plan.asha) {
    json["asha"] = {
        {"metric", plan.asha->metric}, {"first", plan.asha->first}, {"factor", plan.asha->factor}};
    if (plan.asha->last) json["asha"]["last"] = *plan.asha->last;
  }
  if (plan.is_asked) json["asked"] = true;
  json["trials"] = std::move(trials);
  return json;
}

/// Returns an id that changes with every boot; empty if the system does not provide one.
std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

/// Handles a boot id: after a reboot, files that had not been flushed may be incomplete.
void see_boot(SweepPlan& plan, const std::string& boot) {
  if (!plan.boot.empty() && !boot.empty() && boot != plan.boot) {
    for (const std::uint64_t number : plan.unflushed) {
      plan.trials[number].state = TrialState::kInterrupted;
      plan.trials[number].is_doubtful = true;
    }
  }
  plan.boot = boot;
  plan.unflushed.clear();
}

/// Reads AshaOptions from JSON. Throws std::runtime_error if they are not valid.
AshaOptions asha_from(const Json& json) {
  const Fields fields(json, "the 'asha' of its first line");
  AshaOptions asha{.metric = fields.text("metric"),
                   .first = fields.count("first"),
                   .factor = fields.count("factor"),
                   .last = std::nullopt};
  if (fields.has("last")) asha.last = fields.count("last");
  if (asha.first < 1) fields.fail("first", "at least 1");
  if (asha.factor < 2) fields.fail("factor", "at least 2");
  return asha;
}

void add_rung(SweepPlan& plan, std::uint64_t trial, double value) {
  std::vector<double>& rungs = plan.trials[trial].rungs;
  plan.rungs.push_back({.trial = trial, .rung = rungs.size(), .value = value});
  rungs.push_back(value);
}

/// Reads the first line of a journal. Throws std::runtime_error if it is not valid.
SweepPlan plan_from(const std::string& line) {
  const Json json = parse_json<Json>(line);
  const Fields fields(json, "its first line");
  if (fields.count("sweep") != 1)
    throw std::runtime_error("its first line has a different version");
  SweepPlan plan{.recipe = fields.text("recipe"),
                 .overrides = fields.texts("overrides"),
                 .folder = fields.text("folder"),
                 .trials = {}};
  if (fields.has("boot")) plan.boot = fields.text("boot");
  if (fields.has("recipe_folder")) plan.recipe_folder = fields.text("recipe_folder");
  if (fields.has("asha")) plan.asha = asha_from(fields.object("asha"));
  if (fields.has("asked")) plan.is_asked = fields.flag("asked");
  for (const Json& one : fields.list("trials")) {
    const Fields trial(one, "a trial in its first line");
    plan.trials.push_back({.number = static_cast<std::uint64_t>(trial.count("number")),
                           .hash = trial.text("hash"),
                           .settings = trial.texts("settings")});
    if (plan.trials.back().number + 1 != plan.trials.size())
      throw std::runtime_error("the trials in its first line are not numbered from 0");
  }
  return plan;
}

/// Applies a line of the journal to `plan`. Throws std::runtime_error if it is not an event.
void see_event(const std::string& line, SweepPlan& plan) {
  const Json json = parse_json<Json>(line);
  const Fields fields(json, "a line");
  if (fields.has("boot")) return see_boot(plan, fields.text("boot"));
  if (fields.has("flushed")) return plan.unflushed.clear();
  const auto number = static_cast<std::size_t>(fields.count("trial"));
  if (number == plan.trials.size() && fields.has("hash")) {
    plan.trials.push_back(
        {.number = number, .hash = fields.text("hash"), .settings = fields.texts("settings")});
    if (fields.has("ask")) plan.trials.back().ask = static_cast<std::uint64_t>(fields.count("ask"));
    return;
  }
  if (number < plan.trials.size() && fields.has("rung"))
    return add_rung(plan, number, fields.number("rung"));
  const auto state = trial_state_named(fields.text("state"));
  if (number >= plan.trials.size() || !state)
    throw std::runtime_error("a line does not identify a trial");
  Trial& trial = plan.trials[number];
  trial.state = *state;
  if (*state == TrialState::kRunning) {
    ++trial.attempts;
    trial.is_doubtful = false;
    if (fields.has("seconds")) trial.seconds = fields.number("seconds");
    trial.ran_before = fields.has("ran") ? fields.number("ran") : 0;
    trial.is_open = true;
    return;
  }
  trial.is_open = false;
  plan.unflushed.push_back(number);
  trial.exit = static_cast<int>(fields.integer("exit"));
  trial.seconds += fields.number("seconds");
  trial.reason = fields.has("reason") ? fields.text("reason") : "";
}

struct ReadJournal {
  SweepPlan plan;
  std::string text;  // the complete lines of the journal
};

Result<ReadJournal> read_journal(const fs::path& folder) {
  const fs::path path = SweepLayout(folder).journal();
  std::ifstream file = open_regular(path, std::ios::binary);
  if (!file) {
    return Diagnostic{ErrorCode::kNoRun,
                      {},
                      "",
                      "'" + folder.string() + "' contains no sweep",
                      "give the folder that `retort sweep` printed; it contains sweep.jsonl"};
  }
  ReadJournal journal;
  std::size_t number = 0;
  for (std::string line; std::getline(file, line);) {
    if (file.eof()) break;  // the last line was cut off
    try {
      if (++number == 1) journal.plan = plan_from(line);
      else see_event(line, journal.plan);
    } catch (const std::runtime_error& error) {
      return Diagnostic{
          ErrorCode::kDamagedRecord,
          {},
          "",
          "'" + path.string() + "', line " + std::to_string(number) + ": " + error.what(),
          "remove the line if the file was edited; the run folders do not depend on it"};
    }
    journal.text += line + "\n";
  }
  if (number > 0 && !journal.text.empty()) return journal;
  return Diagnostic{ErrorCode::kDamagedRecord,
                    {},
                    "",
                    "'" + path.string() + "' is empty or truncated: no trial was started",
                    "start the sweep again in a different folder"};
}

Result<FolderLock> lock_sweep(const fs::path& folder, Lease::Options options = {}) {
  return FolderLock::take(SweepLayout(folder).recipes(),
                          {ErrorCode::kRunBusy,
                           {},
                           "",
                           "the sweep '" + folder.string() + "' is running in another process{}",
                           "wait until it ends, or stop it: only one process may continue a sweep"},
                          std::move(options));
}

}  // namespace

SweepJournal SweepJournal::make(fs::path folder, SweepPlan plan, Storage& storage) {
  auto lock = lock_sweep(folder);
  if (!lock) throw WriteError(lock.errors().front());
  plan.boot = boot_id();
  SweepJournal journal(std::move(folder), std::move(plan), *std::move(lock));
  AtomicFile file(SweepLayout(journal.folder_).journal(), storage);
  file.append(journal_line(to_json(journal.plan_)));
  journal.file_.emplace(file.commit_and_release());
  return journal;
}

Result<SweepJournal> SweepJournal::reopen(const fs::path& folder, Storage& storage,
                                          Lease::Options options) {
  auto before = read_journal(folder);
  if (!before) return before.errors();
  auto lock = lock_sweep(folder, std::move(options));
  if (!lock) return lock.errors();
  auto read = read_journal(folder);  // again, since the previous lock holder may have written
  if (!read) return read.errors();
  SweepJournal journal(folder, std::move(read->plan), *std::move(lock));
  AtomicFile file(SweepLayout(folder).journal(), storage);
  file.append(read->text);
  const std::string boot = boot_id();
  if (boot != journal.plan_.boot) {
    file.append(journal_line({{"boot", boot}}));
    see_boot(journal.plan_, boot);
  }
  journal.file_.emplace(file.commit_and_release());
  for (Trial& trial : journal.plan_.trials) {
    if (trial.state != TrialState::kRunning) continue;
    trial.state = TrialState::kInterrupted;
    trial.lost = journal.seconds_of_open_attempt(trial);
    trial.seconds += trial.lost;
  }
  return journal;
}

Result<SweepPlan> SweepJournal::read(const fs::path& folder) {
  auto read = read_journal(folder);
  if (!read) return read.errors();
  return std::move(read->plan);
}

std::uint64_t SweepJournal::add(std::string hash, std::vector<std::string> settings,
                                std::optional<std::uint64_t> ask) {
  const std::uint64_t number = plan_.trials.size();
  Json line = {{"trial", number}, {"hash", hash}, {"settings", settings}};
  if (ask) line["ask"] = *ask;
  file_->append(journal_line(line));
  plan_.trials.push_back(
      {.number = number, .hash = std::move(hash), .settings = std::move(settings), .ask = ask});
  return number;
}

void SweepJournal::flush() {
  if (::syncfs(*lock_.folder()) != 0)
    throw WriteError(write_diagnostic(folder_, errno, ErrorCode::kCannotWrite));
  file_->append(journal_line({{"flushed", plan_.unflushed.size()}}));
  file_->sync();
  plan_.unflushed.clear();
}

double SweepJournal::seconds_of_open_attempt(const Trial& trial) const {
  if (!trial.is_open) return 0;
  return std::max(0.0,
                  worked_time(SweepLayout(folder_).run(trial.number)).seconds - trial.ran_before);
}

void SweepJournal::started(std::uint64_t trial) {
  Trial& one = plan_.trials[trial];
  one.ran_before = worked_time(SweepLayout(folder_).run(trial)).seconds;
  Json line = {{"trial", trial}, {"state", name(TrialState::kRunning)}};
  if (one.seconds > 0) line["seconds"] = one.seconds;  // includes attempts without a recorded end
  if (one.ran_before > 0) line["ran"] = one.ran_before;
  file_->append(journal_line(line));
  one.lost = 0;
  one.is_open = true;
  one.state = TrialState::kRunning;
  one.is_doubtful = false;
  ++one.attempts;
}

void SweepJournal::reached(std::uint64_t trial, double value) {
  file_->append(journal_line({{"trial", trial}, {"rung", number_json(value)}}));
  add_rung(plan_, trial, value);
}

void SweepJournal::ended(std::uint64_t trial, TrialState state, int exit, double seconds,
                         const std::string& reason) {
  Json line = {
      {"trial", trial}, {"state", name(state)}, {"exit", exit}, {"seconds", number_json(seconds)}};
  if (!reason.empty()) line["reason"] = reason;
  file_->append(journal_line(line));
  plan_.unflushed.push_back(trial);
  Trial& one = plan_.trials[trial];
  one.state = state;
  one.exit = exit;
  one.seconds += seconds - std::exchange(one.lost, 0);
  one.is_open = false;
  one.reason = reason;
}

namespace {

constexpr std::size_t kLargestTrialRecipe = 16 << 20;

}  // namespace

std::optional<Value> trial_recipe(const SweepLayout& layout, std::uint64_t trial,
                                  Sources& sources) {
  const auto text = real_file_system().read(layout.recipe(trial), kLargestTrialRecipe);
  if (!text) return std::nullopt;
  auto recipe = read_yaml(sources.add(layout.recipe(trial).string(), *text));
  return recipe ? std::optional(*std::move(recipe)) : std::nullopt;
}

}  // namespace runner
