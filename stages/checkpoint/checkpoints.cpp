#include "stages/checkpoint/checkpoints.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "runner/shared/disk/new_file.h"
#include "runner/shared/stage/checkpoint_files.h"
#include "runner/shared/stage/run_layout.h"
#include "stages/checkpoint/checkpoint_folder.h"

namespace stages {
namespace {

namespace fs = std::filesystem;
using runner::check_checkpoint;
using runner::CheckpointName;
using runner::ErrorCode;
using runner::kBestCheckpoint;
using runner::kLatestCheckpoint;
using runner::list_checkpoints;
using runner::no_checkpoint_named;
using runner::pointed_to;
using runner::StageError;
using runner::write_diagnostic;
using runner::WriteError;

constexpr const char *kAverage = "average", *kUnfinishedAverage = ".average.part",
                     *kOldAverage = ".average.old";

/// True for leftovers of an interrupted save: unfinished folders, folders being removed and
/// pointers being written.
bool is_leftover(const std::string& name) {
  return (name.starts_with(".step-") && (name.ends_with(".part") || name.ends_with(".old"))) ||
         name == "latest.part" || name == "best.part" || name == kUnfinishedAverage ||
         name == kOldAverage;
}

fs::path hidden(const fs::path& folder, const CheckpointName& name, const char* ending) {
  return folder / ("." + to_text(name) + ending);
}

}  // namespace

/// An existing checkpoint, with its metric if its state can be read.
struct Checkpoints::Saved {
  CheckpointName name;
  bool is_whole = false;
  std::optional<double> metric;
};

bool Checkpoints::is_measured(const Saved& one) { return one.metric.has_value(); }

Checkpoints::Checkpoints(fs::path folder, CheckpointOptions options, runner::Storage& storage)
    : folder_(std::move(folder)), options_(options), storage_(storage) {}

fs::path Checkpoints::save(const TrainingState& state, const BringTensor& bring) {
  const auto others = static_cast<std::int64_t>(list_checkpoints(folder_).size());
  make_room(state, std::max<std::int64_t>(1, options_.averaged - others));
  CheckpointName name{.step = state.step};
  for (const CheckpointName& other : list_checkpoints(folder_)) {
    if (other.step == name.step) name.again = std::max(name.again, other.again + 1);
  }
  runner::NewFolder unfinished(folder_ / to_text(name), hidden(folder_, name, ".part"), storage_);
  write_checkpoint(unfinished.draft(), state, storage_, bring);
  unfinished.publish();
  point(kLatestCheckpoint, name);

  const std::vector<Saved> all = saved();
  const auto best = std::ranges::find_if(all, is_measured);
  if (best != all.end() && pointed_to(folder_ / kBestCheckpoint) != best->name)
    point(kBestCheckpoint, best->name);
  remove_spare(all);
  return folder_ / to_text(name);
}

std::vector<fs::path> Checkpoints::best(std::int64_t count) const {
  std::vector<fs::path> folders;
  for (const Saved& one : saved())
    if (is_measured(one) && std::ssize(folders) < count)
      folders.push_back(folder_ / to_text(one.name));
  return folders;
}

fs::path Checkpoints::save_average(const TrainingState& state) {
  make_room(state, 1);
  remove_average();
  runner::NewFolder unfinished(folder_ / kAverage, folder_ / kUnfinishedAverage, storage_);
  write_checkpoint(unfinished.draft(), state, storage_);
  unfinished.publish();
  return folder_ / kAverage;
}

void Checkpoints::remove_average() {
  const fs::path old = folder_ / kOldAverage;
  if (storage_.rename(folder_ / kAverage, old) == 0) runner::remove_all(old, storage_);
}

std::optional<FoundCheckpoint> Checkpoints::load_latest(CheckpointPart part) const {
  return load(kLatestCheckpoint, !list_checkpoints(folder_).empty(), part);
}

/// After an interrupted save, `best` may not point to the best checkpoint yet. If the checkpoint
/// that `best` points to is damaged, the best one is unknown.
std::optional<FoundCheckpoint> Checkpoints::load_best(CheckpointPart part) const {
  if (auto average = load_average(part)) return average;
  const std::vector<Saved> all = saved();
  const auto best = std::ranges::find_if(all, is_measured);
  const auto named = std::ranges::find(all, pointed_to(folder_ / kBestCheckpoint), &Saved::name);
  if (best != all.end() && named != all.end() && named->is_whole) return read(best->name, part);
  return load(kBestCheckpoint, best != all.end(), part);
}

std::optional<FoundCheckpoint> Checkpoints::load_named_best(CheckpointPart part) const {
  if (auto average = load_average(part)) return average;
  return load(kBestCheckpoint, /*is_expected=*/std::ranges::any_of(saved(), is_measured), part);
}

std::optional<FoundCheckpoint> Checkpoints::load_average(CheckpointPart part) const {
  const fs::path average = folder_ / kAverage;
  std::error_code error;
  if (!fs::is_directory(average, error)) return std::nullopt;
  return FoundCheckpoint{average, read_checkpoint(average, part)};
}

std::optional<FoundCheckpoint> Checkpoints::load(const char* pointer, bool is_expected,
                                                 CheckpointPart part) const {
  const fs::path file = folder_ / pointer;
  std::error_code error;
  const auto name = pointed_to(file);
  if (!name && (is_expected || fs::exists(file, error)))
    throw StageError(ErrorCode::kDamagedWeights, no_checkpoint_named(file));
  return name ? std::optional(read(*name, part)) : std::nullopt;
}

FoundCheckpoint Checkpoints::read(const CheckpointName& name, CheckpointPart part) const {
  const fs::path folder = folder_ / to_text(name);
  return {folder, read_checkpoint(folder, part)};
}

Continuation Checkpoints::load_to_continue(const ContentsOf& contents_of) {
  Continuation result;
  std::vector<Damage> damaged;
  const auto name = find_to_continue(
      [&](const fs::path& folder) {
        result.from = {folder, read_checkpoint(folder, contents_of)};
      },
      damaged);
  for (const auto& [broken, what] : damaged)
    result.damaged.push_back(what + (broken ? set_aside(*broken) : ""));
  if (name) finish_save(*name, result.damaged);
  return result;
}

/// Completes the last save if it was interrupted, since a finished training run does not save
/// again.
void Checkpoints::finish_save(const CheckpointName& latest, std::vector<std::string>& said) {
  const bool was_whole = said.empty();
  if (pointed_to(folder_ / kLatestCheckpoint) != latest) point(kLatestCheckpoint, latest);
  for (const CheckpointName& name : list_checkpoints(folder_))
    if (was_whole && name > latest) remove(name);  // training will reach it again
  const std::vector<Saved> all = saved();
  const auto best = std::ranges::find_if(all, is_measured);
  const fs::path file = folder_ / kBestCheckpoint;
  const auto named = pointed_to(file);
  if (best != all.end() && named != best->name) {
    std::error_code error;
    const bool is_lost =
        !named && (fs::exists(file, error) || std::ranges::count_if(all, is_measured) > 1);
    if (is_lost) said.push_back(no_checkpoint_named(file));
    point(kBestCheckpoint, best->name);
  }
  if (!was_whole) return;
  remove_leftovers();
  remove_spare(all);
}

bool Checkpoints::can_continue() const {
  std::vector<Damage> ignored;
  return find_to_continue([](const fs::path& folder) { check_checkpoint(folder); }, ignored)
      .has_value();
}

/// Returns the checkpoint that `latest` points to or, failing that, the newest one that `read`
/// accepts. If the best checkpoint is damaged, returns one before it, so that training reaches it
/// again.
std::optional<CheckpointName> Checkpoints::find_to_continue(const Read& read,
                                                            std::vector<Damage>& damaged) const {
  std::vector<CheckpointName> names = list_checkpoints(folder_);
  const auto latest = pointed_to(folder_ / kLatestCheckpoint),
             best = pointed_to(folder_ / kBestCheckpoint);
  std::error_code error;
  const bool is_lost =
      !latest && (names.size() > 1 || fs::exists(folder_ / kLatestCheckpoint, error));
  if (latest) names.insert(names.begin(), *latest);
  else if (is_lost)
    damaged.push_back({std::nullopt, no_checkpoint_named(folder_ / kLatestCheckpoint)});

  const auto is_whole = [&](const CheckpointName& name, const Read& look) {
    const auto is_it = [&](const Damage& one) { return one.name == name; };
    if (std::ranges::any_of(damaged, is_it)) return false;
    try {
      look(folder_ / to_text(name));
      return true;
    } catch (const StageError& error) {
      if (error.code != ErrorCode::kDamagedWeights) throw;
      damaged.push_back({name, error.what()});
    }
    return false;
  };
  const bool has_best = !best || best == latest ||
                        is_whole(*best, [](const fs::path& one) { check_checkpoint(one); });
  std::optional<std::int64_t> end = has_best ? std::nullopt : std::optional(best->step);
  for (const CheckpointName& name : names) {
    if (end && name.step >= *end) continue;
    if (is_whole(name, read)) return name;
    if (name == best) end = name.step;
  }
  return std::nullopt;
}

/// Renames a damaged checkpoint. Returns its new name as the end of a message.
std::string Checkpoints::set_aside(const CheckpointName& name) {
  const fs::path folder = folder_ / to_text(name), aside = folder_ / ("damaged-" + to_text(name));
  std::error_code error;
  if (!fs::exists(folder, error)) return "";
  runner::remove_all(aside, storage_);  // left over from an earlier resume
  return storage_.rename(folder, aside) == 0
             ? "; it has been renamed to " + aside.filename().string()
             : "";
}

std::string Checkpoints::advice(const std::string& option) const {
  std::string whole, first;
  for (const CheckpointName& name : list_checkpoints(folder_)) {
    try {
      check_checkpoint(folder_ / to_text(name));
    } catch (const StageError&) {
      continue;
    }
    if (first.empty()) first = (folder_ / to_text(name)).string();
    whole += (whole.empty() ? "" : ", ") + to_text(name);
  }
  const auto run = runner::run_of(folder_);
  std::string text = run ? "`retort resume " + run->string() + "` recreates it" : "";
  if (option.empty()) return text;
  if (first.empty())
    return text.empty() ? "no other checkpoint is intact"
                        : text + "; no other checkpoint is intact";
  return text + (text.empty() ? "" : "; ") + "intact: " + whole + "; to use one: " + option + first;
}

/// Returns all checkpoints: those with a metric, from the best to the worst (oldest first if
/// equal), then those without one.
std::vector<Checkpoints::Saved> Checkpoints::saved() const {
  std::vector<Saved> all;
  for (const CheckpointName& name : list_checkpoints(folder_)) {
    all.push_back({.name = name});
    try {
      all.back().metric = read_checkpoint_state(folder_ / to_text(name)).metric;
      all.back().is_whole = true;
    } catch (const StageError&) {  // a damaged checkpoint does not count as kept
    }
  }
  const double sign = options_.higher_is_better ? -1 : 1;
  std::ranges::sort(all, [&](const Saved& a, const Saved& b) {
    if (a.metric.has_value() != b.metric.has_value()) return a.metric.has_value();
    if (a.metric && *a.metric != *b.metric) return sign * *a.metric < sign * *b.metric;
    return a.name < b.name;
  });
  return all;
}

/// Throws unless there is space for `count` checkpoints like `state`.
void Checkpoints::make_room(const TrainingState& state, std::int64_t count) {
  if (storage_.make_folder(folder_) == 0) {
    runner::sync_folder(folder_.parent_path(), storage_);
  } else if (errno != EEXIST) {
    throw WriteError(write_diagnostic(folder_, errno, ErrorCode::kCannotCreate));
  }
  remove_leftovers();
  const auto needed = static_cast<std::uint64_t>(checkpoint_bytes(state) * count);
  const auto free = storage_.free_bytes(folder_);
  if (!free || *free >= needed) return;
  throw WriteError(
      {ErrorCode::kDiskFull,
       {},
       "",
       (count == 1 ? "cannot save a checkpoint in '" + folder_.string() + "': it needs "
                   : "cannot save the " + std::to_string(count) +
                         " checkpoints to be averaged in '" + folder_.string() + "': they need ") +
           std::to_string(needed) + " bytes, but only " + std::to_string(*free) + " are free; " +
           std::to_string(needed - *free) + " more are needed",
       "free up space, or choose another location with run.dir"});
}

void Checkpoints::point(const char* name, const CheckpointName& to) {
  runner::write_atomically(folder_ / name, to_text(to) + "\n", storage_);
}

void Checkpoints::remove_spare(const std::vector<Saved>& all) {
  std::vector<CheckpointName> kept;
  for (const char* pointer : {kLatestCheckpoint, kBestCheckpoint}) {
    if (const auto name = pointed_to(folder_ / pointer)) kept.push_back(*name);
  }
  std::int64_t measured = 0;
  for (const Saved& one : all) {
    if (is_measured(one) && ++measured <= options_.keep_best) kept.push_back(one.name);
  }
  std::vector<Saved> newest_first = all;
  std::ranges::sort(newest_first, std::ranges::greater(), &Saved::name);
  std::int64_t whole = 0;
  for (const Saved& one : newest_first) {
    if (whole < options_.keep_last || std::ranges::find(kept, one.name) != kept.end()) {
      whole += one.is_whole ? 1 : 0;
      continue;
    }
    remove(one.name);
  }
}

/// Renames the folder first, so that a half-removed folder is not mistaken for a checkpoint.
void Checkpoints::remove(const CheckpointName& name) {
  const fs::path old = hidden(folder_, name, ".old");
  if (storage_.rename(folder_ / to_text(name), old) == 0) runner::remove_all(old, storage_);
}

void Checkpoints::remove_leftovers() {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder_, error), end; !error && entry != end;
       entry.increment(error)) {
    if (is_leftover(entry->path().filename().string())) found.push_back(entry->path());
  }
  for (const fs::path& path : found) runner::remove_all(path, storage_);
}

}  // namespace stages
