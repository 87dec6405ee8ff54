#include "runner/record/recorded_run.h"

#include <algorithm>
#include <vector>

#include <nlohmann/json.hpp>

#include "runner/disk/file_system.h"
#include "runner/stage/run_layout.h"

namespace runner {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::size_t kLargestRecord = 64 << 20;

/// A JSON object; empty where there is none that can be read.
json read_object(const fs::path& path) {
  const auto text = real_file_system().read(path, kLargestRecord);
  json object = text ? json::parse(*text, nullptr, /*allow_exceptions=*/false) : json();
  return object.is_object() ? object : json::object();
}

/// The folders that hold a whole record, the latest first: a kill may leave the last one without.
std::vector<fs::path> whole_records(const RunLayout& run) {
  std::vector<fs::path> records;
  const auto add = [&](const fs::path& path) {
    // environment.json is written last.
    if (real_file_system().is_file(path / RunRecord::kEnvironment)) records.insert(records.begin(), path);
  };
  add(run.records());
  for (int number = 1;; ++number) {
    const fs::path next = run.resume(number);
    if (!real_file_system().is_folder(next)) return records;
    add(next);
  }
}

/// The newest run below outputs/, for advice; empty where there is none.
std::string newest_run() {
  const FileSystem& files = real_file_system();
  const fs::path outputs = default_runs_folder("");
  std::vector<std::string> days = files.list(outputs);
  for (auto day = days.rbegin(); day != days.rend(); ++day) {
    std::vector<std::string> times = files.list(outputs / *day);
    for (auto time = times.rbegin(); time != times.rend(); ++time) {
      const fs::path run = outputs / *day / *time;
      if (files.is_file(RunLayout(run).mark())) return run.string();
    }
  }
  return "";
}

Diagnostic no_run(const std::string& what) {
  const std::string newest = newest_run();
  return {ErrorCode::kNoRun,
          {},
          "",
          what,
          newest.empty() ? "name a folder that `retort run` made" : "the newest run here is '" + newest + "'"};
}

}  // namespace

Result<RecordedRun> read_run(const fs::path& folder) {
  const FileSystem& files = real_file_system();
  if (!files.is_folder(folder)) return no_run("there is no folder '" + folder.string() + "'");
  const RunLayout layout(folder);
  if (read_object(layout.mark()).value("schema", json()) != 1)
    return no_run("'" + folder.string() + "' is not the folder of a run");
  const std::vector<fs::path> records = whole_records(layout);
  if (records.empty()) {
    return Diagnostic{ErrorCode::kNoRun,
                      {},
                      "",
                      "the run in '" + folder.string() + "' was killed before it began: its record is incomplete",
                      "nothing is lost: remove the folder and run it again"};
  }
  RecordedRun run{
      .folder = folder, .recipe = records.front() / RunRecord::kRecipe, .device = {}, .threads = 0, .status = {}};
  const json environment = read_object(records.front() / RunRecord::kEnvironment);
  const json summary = read_object(layout.summary());
  const json device = environment.value("device", json()), threads = environment.value("threads", json());
  if (!device.is_string() || !threads.is_number_integer() || !files.is_file(run.recipe)) {
    return Diagnostic{ErrorCode::kNoRun,
                      {},
                      "",
                      "the record in '" + records.front().string() + "' cannot be read",
                      "it has been changed since; run its recipe again"};
  }
  run.device = device;
  run.threads = threads;
  const json source = read_object(layout.source()).value("run", json());
  if (source.is_string()) run.source = source;
  if (summary.contains("status") && summary["status"].is_string()) run.status = summary["status"];
  return run;
}

}  // namespace runner
