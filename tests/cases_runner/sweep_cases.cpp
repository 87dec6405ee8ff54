// sweep.jsonl: the overrides of a sweep of conf/config.yaml, and the overrides of its jobs in
// batches.

#include <algorithm>

#include "runner/parent/config/compose.h"
#include "runner/parent/config/override.h"
#include "runner/parent/config/trial_list.h"
#include "tests/cases_runner/formats.h"

namespace {

using Json = nlohmann::ordered_json;

Json batches_of(const runner::TrialList& jobs, const Json& max_batch_size) {
  const std::uint64_t size =
      max_batch_size.is_null() ? jobs.size() : max_batch_size.get<std::uint64_t>();
  Json batches = Json::array();
  for (std::uint64_t number = 0; number < jobs.size(); ++number) {
    if (number % size == 0) batches.push_back(Json::array());
    Json job = Json::array();
    for (const runner::Override& override : jobs[number]) job.push_back(override_text(override));
    batches.back().push_back(std::move(job));
  }
  return batches;
}

/// Returns why Retort rejects a sweep that Hydra accepts; empty if there is no known reason.
std::string reason_to_refuse(const runner::Diagnostics& errors) {
  for (const runner::Diagnostic& error : errors) {
    if (error.message.find("twice") != std::string::npos)
      return "a sweep is not silently overwritten";
    if (error.message.find("no values") != std::string::npos) return "an empty sweep is rejected";
  }
  return "";
}

/// Returns the batches with `change` applied to the text of each override.
template <typename Change>
Json changed(Json batches, Change change) {
  for (Json& batch : batches) {
    for (Json& job : batch) {
      for (Json& text : job) text = change(text.get<std::string>());
    }
  }
  return batches;
}

/// Returns why Retort's jobs differ from Hydra's; empty if there is no known reason.
std::string reason_for_other_batches(const Json& recorded, const Json& ours) {
  const auto deletion = [](std::string text) {
    if (text.starts_with("~") && text.ends_with("=null")) text.resize(text.size() - 5);
    return text;
  };
  const auto unquoted = [&](std::string text) {
    text = deletion(std::move(text));
    std::erase_if(text, [](char each) { return each == '\'' || each == '"' || each == '\\'; });
    return text;
  };
  if (changed(recorded, deletion) == changed(ours, deletion))
    return "~key is not written as ~key=null";
  if (changed(recorded, unquoted) == changed(ours, unquoted)) return "strings stay strings";
  return "";
}

}  // namespace

Verdict check_sweep(const Json& recorded, const std::filesystem::path& folder) {
  const std::string label = recorded["overrides"].dump();
  runner::Sources sources;
  runner::ComposeRequest request{
      "config", recorded["overrides"].get<std::vector<std::string>>(), {}};
  request.config_folders = {folder / "conf"};
  const auto composer = runner::Composer::open(std::move(request), runner::real_file_system(),
                                               runner::kWithoutSchema, sources);
  runner::Diagnostics errors = composer ? composer->errors() : composer.errors();
  if (errors.empty()) {
    const auto jobs = runner::TrialList::make(composer->overrides(), composer->configs(), {});
    if (jobs && !recorded["ok"]) {
      const bool is_accepted = label.find_first_of("#!&;<>^") != std::string::npos;
      return is_accepted ? Verdict::known_difference("accepted: # ! & ; < > ^ need no quotes")
                         : Verdict::different(label + ": should be rejected");
    }
    if (jobs) {
      const Json batches = batches_of(*jobs, recorded["max_batch_size"]);
      if (batches == recorded["batches"]) return Verdict::same();
      const std::string reason = reason_for_other_batches(recorded["batches"], batches);
      if (!reason.empty()) return Verdict::known_difference(reason);
      return Verdict::different(label + ": gives " + batches.dump());
    }
    errors = jobs.errors();
  }
  if (!recorded["ok"]) return Verdict::same();
  const std::string reason = reason_to_refuse(errors);
  if (!reason.empty()) return Verdict::known_difference(reason);
  return Verdict::different(label + ": rejected: " + errors.front().message);
}
