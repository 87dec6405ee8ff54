#include <algorithm>
#include <string_view>

#include <nlohmann/json.hpp>

#include "runner/cli/commands/data.h"
#include "runner/cli/data_names.h"
#include "runner/run/shown_conversation.h"
#include "runner/text/suggest.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kHub = "hf:";
constexpr const char* kForms = "fetch: flowers102, cub200 or hf:ORG/NAME[@REVISION]";

Diagnostic misused_fetch(std::string message, std::string help = kForms) {
  return {ErrorCode::kUsage, {}, "", std::move(message), std::move(help)};
}

/// Is it "ORG/NAME" or "NAME", with no part that is empty, "." or ".."?
bool is_path(std::string_view text, std::size_t most_parts) {
  std::size_t parts = 0;
  while (true) {
    const std::size_t slash = text.find('/');
    const std::string_view part = text.substr(0, slash);
    const bool is_plain =
        std::ranges::all_of(part, [](unsigned char c) { return std::isalnum(c) || c == '.' || c == '_' || c == '-'; });
    if (!is_plain || part.empty() || part.starts_with('.') || ++parts > most_parts) return false;
    if (slash == text.npos) return true;
    text.remove_prefix(slash + 1);
  }
}

Result<Json> request_for_model(const DataFlags& flags) {
  const std::string named = flags.what.substr(kHub.size());
  const std::size_t at = named.find('@');
  const std::string repository = named.substr(0, at);
  const std::string revision = at == named.npos ? "main" : named.substr(at + 1);
  if (!is_path(repository, 2)) return misused_fetch("'" + flags.what + "' is not the name of a model");
  if (!is_path(revision, 8)) return misused_fetch("'" + flags.what + "' has no valid revision after its @");
  if (!flags.from_files.empty()) return misused_fetch("--from-file is for data sets", "leave it out");
  return Json{{"protocol", kProtocolVersion}, {"request", "fetch_model"}, {"repository", repository},
              {"revision", revision},         {"files", flags.files},     {"cache", flags.out},
              {"endpoint", flags.url}};
}

Result<Json> request_for_dataset(const DataFlags& flags) {
  if (std::ranges::count(kFetchableData, flags.what) == 0) {
    const std::vector<std::string> names(kFetchableData.begin(), kFetchableData.end());
    const std::string near = did_you_mean(flags.what, names);
    return misused_fetch("cannot fetch '" + flags.what + "'", near.empty() ? kForms : near);
  }
  if (!flags.files.empty())
    return misused_fetch("--file is for models", "a data set is fetched as a whole: leave it out");
  return Json{{"protocol", kProtocolVersion}, {"request", "fetch_data"},
              {"what", flags.what},           {"root", flags.out.empty() ? "data" : flags.out},
              {"files", flags.from_files},    {"url", flags.url}};
}

void tell(const std::string& what, const Json& answer, Console& console) {
  const std::string folder = answer["folder"];
  if (answer.contains("commit")) {
    console.out << what.substr(kHub.size()) << " is in " << folder << '\n';
    for (const Json& file : answer["files"]) console.out << "  " << file["name"].get<std::string>() << '\n';
  } else if (answer["was_there"].get<bool>()) {
    console.out << what << " is there already: " << folder << '\n';
  } else {
    console.out << what << " is in " << folder << ": " << answer["files"] << " files\n";
  }
}

}  // namespace

ExitCode fetch_data(const DataFlags& flags, Console& console) {
  const auto request = flags.what.starts_with(kHub) ? request_for_model(flags) : request_for_dataset(flags);
  if (!request) return report(console, request.errors());
  const auto worker = flags.log.worker();
  if (!worker) return report(console, worker.errors());
  ProgressDisplay display(console.err, standard_error_display(console.verbosity));
  const auto answer = ask_worker(*worker, *request, shown_conversation(display, "data"));
  display.clear();
  if (!answer) return report(console, answer.errors());
  if (console.json) print_result(console, "data_fetch/1", *answer);
  else if (!console.is_quiet()) tell(flags.what, *answer, console);
  return ExitCode::kDone;
}

}  // namespace runner
