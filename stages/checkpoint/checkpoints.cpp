#include "stages/checkpoint/checkpoints.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <stdexcept>
#include <utility>

#include "runner/disk/new_file.h"
#include "runner/disk/new_folder.h"
#include "stages/checkpoint/checkpoint_folder.h"

namespace stages {
namespace {

namespace fs = std::filesystem;
using runner::checkpoint_name_from;
using runner::CheckpointName;
using runner::ErrorCode;
using runner::list_checkpoints;
using runner::StageError;
using runner::write_diagnostic;
using runner::WriteError;

constexpr const char* kLatest = "latest";
constexpr const char* kBest = "best";

/// What a killed save leaves: a folder being built, one being removed, a pointer being written.
bool is_leftover(const std::string& name) {
  return (name.starts_with(".step-") && (name.ends_with(".part") || name.ends_with(".old"))) || name == "latest.part" ||
         name == "best.part";
}

fs::path hidden(const fs::path& folder, const CheckpointName& name, const char* ending) {
  return folder / ("." + to_text(name) + ending);
}

}  // namespace

/// What is there: whether its state can be read, and the metric in it.
struct Checkpoints::Saved {
  CheckpointName name;
  bool is_whole = false;
  std::optional<double> metric;
};

Checkpoints::Checkpoints(fs::path folder, CheckpointOptions options, runner::Storage& storage)
    : folder_(std::move(folder)), options_(options), storage_(storage) {}

fs::path Checkpoints::save(const TrainingState& state) {
  make_room(state);
  CheckpointName name{.step = state.step};
  for (const CheckpointName& other : list_checkpoints(folder_)) {
    if (other.step == name.step) name.again = std::max(name.again, other.again + 1);
  }
  runner::NewFolder unfinished(folder_ / to_text(name), hidden(folder_, name, ".part"), storage_);
  write_checkpoint(unfinished.draft(), state, storage_);
  unfinished.publish();
  point(kLatest, name);

  const std::vector<Saved> all = saved();
  const auto best = std::ranges::find_if(all, [](const Saved& one) { return one.metric.has_value(); });
  if (best != all.end() && pointer(kBest) != best->name) point(kBest, best->name);
  remove_spare(all);
  return folder_ / to_text(name);
}

std::optional<FoundCheckpoint> Checkpoints::load_latest(CheckpointPart part) const {
  std::vector<CheckpointName> names = list_checkpoints(folder_);
  std::vector<std::string> passed_over;
  const auto latest = pointer(kLatest);
  if (latest) {
    names.insert(names.begin(), *latest);
  } else if (!names.empty()) {
    passed_over.push_back("'" + (folder_ / kLatest).string() + "' does not name a checkpoint");
  }
  return load_first(names, std::move(passed_over), part);
}

std::optional<FoundCheckpoint> Checkpoints::load_best(CheckpointPart part) const {
  std::vector<CheckpointName> names;
  std::vector<std::string> passed_over;
  const auto best = pointer(kBest);
  if (best) names.push_back(*best);
  for (const Saved& one : saved()) {
    if (one.metric) names.push_back(one.name);
  }
  if (!best && !names.empty()) {
    passed_over.push_back("'" + (folder_ / kBest).string() + "' does not name a checkpoint");
  }
  return load_first(names, std::move(passed_over), part);
}

/// The first of `names` that is whole. A name that stands twice is tried once.
std::optional<FoundCheckpoint> Checkpoints::load_first(const std::vector<CheckpointName>& names,
                                                       std::vector<std::string> passed_over,
                                                       CheckpointPart part) const {
  for (auto name = names.begin(); name != names.end(); ++name) {
    if (std::find(names.begin(), name, *name) != name) continue;
    const fs::path folder = folder_ / to_text(*name);
    try {
      return FoundCheckpoint{folder, read_checkpoint(folder, part), std::move(passed_over)};
    } catch (const StageError& error) {
      if (error.code != ErrorCode::kDamagedWeights) throw;
      passed_over.emplace_back(error.what());
    }
  }
  if (names.empty()) return std::nullopt;
  std::string message = "no checkpoint in '" + folder_.string() + "' is whole";
  for (const std::string& line : passed_over) message += "; " + line;
  throw StageError(ErrorCode::kDamagedWeights, message).with_help("start the training again");
}

std::optional<CheckpointName> Checkpoints::pointer(const char* name) const {
  constexpr std::size_t kLongest = 64;
  std::error_code error;
  if (!fs::is_regular_file(folder_ / name, error)) return std::nullopt;
  std::ifstream file(folder_ / name, std::ios::binary);
  std::string text(kLongest, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (!text.ends_with('\n')) return std::nullopt;
  text.pop_back();
  return checkpoint_name_from(text);
}

/// All, those with a metric first, from the best to the worst and of equals the oldest first; then the others.
std::vector<Checkpoints::Saved> Checkpoints::saved() const {
  std::vector<Saved> all;
  for (const CheckpointName& name : list_checkpoints(folder_)) {
    all.push_back({.name = name});
    try {
      all.back().metric = read_checkpoint_state(folder_ / to_text(name)).metric;
      all.back().is_whole = true;
    } catch (const StageError&) {  // one that is damaged is not counted among those kept
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

void Checkpoints::make_room(const TrainingState& state) {
  if (storage_.make_folder(folder_) == 0) {
    runner::sync_folder(folder_.parent_path(), storage_);
  } else if (errno != EEXIST) {
    throw WriteError(write_diagnostic(folder_, errno, ErrorCode::kCannotCreate));
  }
  remove_leftovers();
  const auto needed = static_cast<std::uint64_t>(checkpoint_bytes(state));
  const auto free = storage_.free_bytes(folder_);
  if (!free || *free >= needed) return;
  throw WriteError({ErrorCode::kDiskFull,
                    {},
                    "",
                    "cannot save a checkpoint in '" + folder_.string() + "': it takes " + std::to_string(needed) +
                        " bytes and " + std::to_string(*free) + " are free, so " + std::to_string(needed - *free) +
                        " are missing",
                    "make room, or choose another place with run.dir"});
}

void Checkpoints::point(const char* name, const CheckpointName& to) {
  runner::write_atomically(folder_ / name, to_text(to) + "\n", storage_);
}

void Checkpoints::remove_spare(const std::vector<Saved>& all) {
  std::vector<CheckpointName> kept;
  for (const auto& pointed : {pointer(kLatest), pointer(kBest)}) {
    if (pointed) kept.push_back(*pointed);
  }
  std::int64_t measured = 0;
  for (const Saved& one : all) {
    if (one.metric && ++measured <= options_.keep_best) kept.push_back(one.name);
  }
  std::vector<Saved> newest_first = all;
  std::ranges::sort(newest_first, std::ranges::greater(), &Saved::name);
  std::int64_t whole = 0;
  for (const Saved& one : newest_first) {
    if (whole < options_.keep_last || std::ranges::find(kept, one.name) != kept.end()) {
      whole += one.is_whole ? 1 : 0;
      continue;
    }
    // Under another name first, so that one that is half removed is not taken for a checkpoint.
    const fs::path old = hidden(folder_, one.name, ".old");
    if (storage_.rename(folder_ / to_text(one.name), old) == 0) runner::remove_all(old, storage_);
  }
}

void Checkpoints::remove_leftovers() {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder_, error), end; !error && entry != end; entry.increment(error)) {
    if (is_leftover(entry->path().filename().string())) found.push_back(entry->path());
  }
  for (const fs::path& path : found) runner::remove_all(path, storage_);
}

}  // namespace stages
