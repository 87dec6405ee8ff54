#include "runner/parent/sweep/submission.h"

#include <fstream>

#include <nlohmann/json.hpp>

#include "runner/shared/disk/descriptor.h"
#include "runner/shared/disk/new_file.h"
#include "runner/shared/value/json_fields.h"
#include "runner/shared/value/parse_json.h"

namespace runner {
namespace {

std::filesystem::path record_of(const std::filesystem::path& folder) {
  return folder / "submission.json";
}

/// Reads a submission from JSON. Throws std::runtime_error if it is not valid.
Submission submission_from(const nlohmann::json& json) {
  const JsonFields<nlohmann::json> fields(json, "a submission");
  Submission result{.number = static_cast<int>(fields.count("submission")),
                    .name = fields.text("name"),
                    .job = fields.text("job"),
                    .is_refused = fields.flag("is_refused"),
                    .trials = {},
                    .attempts_before = {},
                    .time_out_minutes = fields.count("time_out_minutes"),
                    .arguments = fields.texts("arguments")};
  if (json.contains("run_arguments")) result.run_arguments = fields.texts("run_arguments");
  if (json.contains("resume_arguments")) result.resume_arguments = fields.texts("resume_arguments");
  for (const std::int64_t trial : fields.integers("trials"))
    result.trials.push_back(static_cast<std::uint64_t>(trial));
  for (const std::int64_t count : fields.integers("attempts_before"))
    result.attempts_before.push_back(static_cast<int>(count));
  if (result.attempts_before.size() != result.trials.size())
    fields.fail("attempts_before", "a list as long as 'trials'");
  return result;
}

}  // namespace

void write_submission(const Submission& submission, const std::filesystem::path& sweep) {
  const auto folder = LaunchLayout(sweep).submission(submission.number);
  const nlohmann::ordered_json json = {{"submission", submission.number},
                                       {"name", submission.name},
                                       {"job", submission.job},
                                       {"is_refused", submission.is_refused},
                                       {"trials", submission.trials},
                                       {"attempts_before", submission.attempts_before},
                                       {"time_out_minutes", submission.time_out_minutes},
                                       {"arguments", submission.arguments},
                                       {"run_arguments", submission.run_arguments},
                                       {"resume_arguments", submission.resume_arguments}};
  make_folders(folder);
  write_atomically(record_of(folder), json.dump() + "\n");
}

Result<Submission> read_submission(const std::filesystem::path& folder) {
  std::ifstream file = open_regular(record_of(folder));
  if (!file) {
    return Diagnostic{ErrorCode::kNoRun,
                      {},
                      "",
                      "'" + folder.string() + "' contains no submission",
                      "`retort sweep task` is for the scripts in launch/ of a sweep's folder"};
  }
  try {
    return submission_from(parse_json<nlohmann::json>(file));
  } catch (const std::runtime_error& error) {
    return Diagnostic{ErrorCode::kDamagedRecord,
                      {},
                      "",
                      "'" + record_of(folder).string() + "': " + error.what(),
                      "remove the folder once none of its tasks are running, and continue with "
                      "`retort sweep resume DIR`"};
  }
}

Result<std::vector<Submission>> read_submissions(const std::filesystem::path& sweep) {
  std::vector<Submission> all;
  const LaunchLayout layout(sweep);
  std::error_code error;
  for (int number = 1; std::filesystem::exists(record_of(layout.submission(number)), error);
       ++number) {
    auto one = read_submission(layout.submission(number));
    if (!one) return one.errors();
    all.push_back(*std::move(one));
  }
  return all;
}

}  // namespace runner
