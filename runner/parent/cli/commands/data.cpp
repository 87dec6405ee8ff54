#include "runner/parent/cli/commands/data.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "runner/parent/cli/command.h"
#include "runner/parent/cli/console.h"
#include "runner/parent/cli/graph_worker.h"
#include "runner/parent/cli/prepare.h"
#include "runner/parent/cli/weights_source.h"
#include "runner/parent/report/data_survey.h"
#include "runner/parent/run/plan_request.h"
#include "runner/shared/text/printable.h"
#include "runner/shared/text/suggest.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kHub = "hf:";
constexpr const char* kForms = "choose flowers102, cub200 or hf:ORG/NAME[@REVISION]";

struct DataFlags {
  std::string action;        ///< "make", "fetch" or "check"
  std::string what;          ///< image_folder (make), cub200, or hf:ORG/NAME@REVISION (fetch)
  std::string out;           ///< the folder to write to or fetch into
  std::int64_t classes = 0;  ///< make: number of classes; 0: usual_classes()
  std::int64_t per_class = 100, size = 64, seed = 0;  ///< make: --per-class, --size and --seed
  std::vector<std::string> from_files;                ///< fetch: local copies of a dataset's files
  std::vector<std::string> files;                     ///< fetch: the files of a model to fetch
  std::string url;  ///< fetch: the URL to download from; empty: the published one
  std::vector<std::string> overrides;  ///< check: key=value
  std::int64_t distance = 20;          ///< check: number of bits in which copies may differ
  LogFlags log;
};

Diagnostic misused(std::string message, std::string help) {
  return {ErrorCode::kUsage, {}, "", std::move(message), std::move(help)};
}

/// Returns the default of --classes: all five grades for fundus images; for mini_imagenet, enough
/// for episodes of five classes in each split; for other data, 8.
std::int64_t usual_classes(const std::string& what) {
  if (std::ranges::count(kGradedData, what) > 0) return 5;
  return what == "mini_imagenet" ? 20 : 8;
}

ExitCode make_data(const DataFlags& flags, Console& console) {
  if (std::ranges::count(kMakeableData, flags.what) == 0) {
    std::string names;
    for (const std::string_view name : kMakeableData)
      names += (names.empty() ? "" : ", ") + std::string(name);
    return report(console, {misused("cannot make '" + flags.what + "'", "choose one of " + names)});
  }
  if (flags.out.empty())
    return report(console, {misused("data make needs a folder to write to",
                                    "choose one that does not exist yet: --out DIR")});
  const auto worker = flags.log.worker();
  if (!worker) return report(console, worker.errors());
  const bool is_graded = std::ranges::count(kGradedData, flags.what) > 0;
  const std::int64_t classes = flags.classes > 0 ? flags.classes : usual_classes(flags.what);
  const Json request = {
      {"protocol", kProtocolVersion}, {"request", "make_data"},
      {"what", flags.what},           {"out", flags.out},
      {"classes", classes},           {"per_class", flags.per_class},
      {"size", flags.size},           {"seed", flags.seed},
  };
  ProgressDisplay display(console.err, standard_error_display(console.verbosity));
  const auto answer = ask_worker(*worker, request, shown_conversation(display, "data"));
  display.clear();
  if (!answer) {
    Diagnostics errors = answer.errors();
    for (Diagnostic& error : errors) error.pointer.clear();  // there is no recipe to point into
    return report(console, errors);
  }
  if (console.json) print_result(console, "data_make/1", *answer);
  else if (!console.is_quiet()) {
    console.out << "made " << (*answer)["images"] << " images in " << classes
                << (is_graded ? " grades: " : " classes: ") << printable(flags.out) << '\n';
  }
  return ExitCode::kDone;
}

/// True if `text` has at most `most_parts` parts separated by '/'. Each part consists of letters,
/// digits, '.', '_' and '-', and does not start with '.'.
bool is_path(std::string_view text, std::size_t most_parts) {
  std::size_t parts = 0;
  while (true) {
    const std::size_t slash = text.find('/');
    const std::string_view part = text.substr(0, slash);
    const bool is_plain = std::ranges::all_of(
        part, [](unsigned char c) { return std::isalnum(c) || c == '.' || c == '_' || c == '-'; });
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
  if (!is_path(repository, 2))
    return misused("'" + flags.what + "' is not the name of a model", kForms);
  if (!is_path(revision, 8))
    return misused("'" + flags.what + "' has no valid revision after its @", kForms);
  if (!flags.from_files.empty()) return misused("--from-file is for datasets", "leave it out");
  return Json{{"protocol", kProtocolVersion}, {"request", "fetch_model"},
              {"repository", repository},     {"revision", revision},
              {"files", flags.files},         {"cache", flags.out},
              {"endpoint", flags.url}};
}

Result<Json> request_for_dataset(const DataFlags& flags) {
  if (std::ranges::count(kFetchableData, flags.what) == 0) {
    const std::vector<std::string> names(kFetchableData.begin(), kFetchableData.end());
    const std::string near = did_you_mean(flags.what, names);
    return misused("cannot fetch '" + flags.what + "'", near.empty() ? kForms : near);
  }
  if (!flags.files.empty())
    return misused("--file is for models", "leave out --file: a dataset is fetched as a whole");
  return Json{{"protocol", kProtocolVersion}, {"request", "fetch_data"},
              {"what", flags.what},           {"root", flags.out.empty() ? "data" : flags.out},
              {"files", flags.from_files},    {"url", flags.url}};
}

void report(const std::string& what, const Json& answer, Console& console) {
  const std::string folder = answer["folder"];
  if (answer.contains("commit")) {
    console.out << what.substr(kHub.size()) << " is in " << printable(folder) << '\n';
    for (const Json& file : answer["files"])
      console.out << "  " << printable(file["name"].get<std::string>()) << '\n';
  } else if (answer["was_there"].get<bool>()) {
    console.out << what << " already exists: " << printable(folder) << '\n';
  } else {
    console.out << what << " is in " << printable(folder) << ": " << answer["files"] << " files\n";
  }
}

ExitCode fetch_data(const DataFlags& flags, Console& console) {
  const auto request =
      flags.what.starts_with(kHub) ? request_for_model(flags) : request_for_dataset(flags);
  if (!request) return report(console, request.errors());
  const auto worker = flags.log.worker();
  if (!worker) return report(console, worker.errors());
  ProgressDisplay display(console.err, standard_error_display(console.verbosity));
  const auto answer = ask_worker(*worker, *request, shown_conversation(display, "data"));
  display.clear();
  if (!answer) return report(console, answer.errors());
  if (console.json) print_result(console, "data_fetch/1", *answer);
  else if (!console.is_quiet()) report(flags.what, *answer, console);
  return ExitCode::kDone;
}

ExitCode check(const DataFlags& flags, Console& console) {
  NamedRecipe recipe;
  recipe.overrides = flags.overrides;
  recipe.name = flags.what;
  return check_data(recipe, flags.distance, flags.log, console);
}

Invocation declare_data() {
  const auto flags = std::make_shared<DataFlags>();
  Invocation verb;
  verb.add({.name = "action",
            .value = &flags->action,
            .summary = "make, fetch, or check RECIPE [overrides]",
            .choices = {"make", "fetch", "check"},
            .required = true});
  verb.action = &flags->action;
  verb.add({.name = "what",
            .value = &flags->what,
            .summary = "make: image_folder, mini_imagenet, stanford_cars, aptos_2019, eyepacs_2015 "
                       "or fundus_folders; make and fetch: flowers102 or cub200; fetch: "
                       "hf:ORG/NAME[@REVISION]; check: a recipe",
            .type = "DATA",
            .required = true});
  verb.add({.name = "overrides",
            .value = &flags->overrides,
            .summary = "check: key=value or group=option, as for `retort run`"});
  verb.add({.name = "--out",
            .value = &flags->out,
            .summary = "make: the folder to create, which must not exist yet; fetch: the folder to "
                       "save to; default: data/, or the Hugging Face cache for hf:ORG/NAME",
            .type = "DIR",
            .is_written = true});
  verb.add(
      {.name = "--from-file",
       .value = &flags->from_files,
       .summary =
           "fetch: use these published files, which you already have, instead of downloading them",
       .type = "FILE"});
  verb.add(
      {.name = "--file",
       .value = &flags->files,
       .summary =
           "fetch hf:ORG/NAME: fetch these files instead of the weights and their config files",
       .type = "NAME"});
  verb.add({.name = "--url",
            .value = &flags->url,
            .summary = "fetch: download from this URL instead of the published one",
            .type = "URL"});
  verb.add({.name = "--classes",
            .value = &flags->classes,
            .summary = "make: number of classes, or of grades for fundus images",
            .range = {2, 24},
            .assumed = "8, 20 for mini_imagenet, 5 grades"});
  verb.add({.name = "--per-class",
            .value = &flags->per_class,
            .summary = "make: number of images per class",
            .range = {1, 100'000},
            .shows_default = true});
  verb.add({.name = "--size",
            .value = &flags->size,
            .summary = "make: width and height in pixels",
            .range = {16, 1024},
            .shows_default = true});
  verb.add({.name = "--seed",
            .value = &flags->seed,
            .summary = "make: the random seed for the images",
            .shows_default = true});
  verb.add({.name = "--distance",
            .value = &flags->distance,
            .summary = "check: two images count as copies if their 256-bit hashes differ in at "
                       "most this many bits",
            .range = {0, 64},
            .shows_default = true});
  add_log_level(verb, flags->log, LogPlace::kStandardError);
  verb.run = [flags](Console& console) {
    if (flags->action == "check") return check(*flags, console);
    if (!flags->overrides.empty())
      return report(console, {misused("unexpected word '" + flags->overrides.front() + "'",
                                      "only `data check` takes overrides")});
    return flags->action == "fetch" ? fetch_data(*flags, console) : make_data(*flags, console);
  };
  return verb;
}

}  // namespace

const Command kDataCommand = {
    "data",
    "Makes small datasets to experiment with, fetches published data and weights, and checks "
    "data.",
    "retort data make image_folder --out shapes --classes 8 --per-class 100 --seed 1",
    declare_data};

namespace {

using Json = nlohmann::ordered_json;

bool says(const Value& options, std::string_view key, std::string_view word) {
  const Value* const value = options.find(key);
  return value && value->says(word);
}

/// Returns the findings that the node's options tolerate.
SurveyTolerance tolerance_of(const Graph& graph, const std::string& id) {
  const auto node = std::ranges::find(graph.nodes, id, &Node::id);
  if (node == graph.nodes.end()) return {};
  return {.copies = says(node->options, "duplicates", "drop") ||
                    says(node->options, "duplicates", "keep"),
          .unreadable = says(node->options, "on_corrupt", "skip")};
}

}  // namespace

ExitCode check_data(const NamedRecipe& recipe, std::int64_t distance, const LogFlags& log,
                    Console& console) {
  const SchemaSet& schemas = shipped_schemas();
  auto prepared = prepare(recipe, schemas, console.sources);
  if (!prepared) return report(console, prepared.errors());
  Graph& graph = prepared->graph;
  std::erase_if(graph.nodes, [](const Node& node) { return !node.kind.starts_with("data."); });
  std::erase_if(graph.nodes, [](const Node& node) { return !node.inputs.empty(); });
  if (graph.nodes.empty())
    return report(
        console,
        {{ErrorCode::kUsage, {}, "", "the recipe has no data stage", "name another recipe"}});
  const auto worker = worker_for(graph, prepared->recipe.resolved, schemas, log);
  if (!worker) return report(console, worker.errors());
  warn(console, prepared->composition.warnings);

  const SecretTexts secrets(prepared->recipe.resolved);
  ProgressDisplay display(console.err, standard_error_display(console.verbosity), secrets);
  const Json request = {{"protocol", kProtocolVersion},
                        {"request", "check_data"},
                        {"graph", to_json(graph)},
                        {"distance", distance}};
  auto answer = ask_worker(*worker, request, shown_conversation(display, "data"));
  display.clear();
  const Value& resolved = prepared->recipe.resolved;
  if (!answer) return report(console, placed(answer.errors(), resolved));
  secrets.hide_in(*answer);
  Diagnostics errors, warnings;
  for (const Json& survey : (*answer)["data"]) {
    if (!console.json && !console.is_quiet())
      console.out << data_survey_text(survey, console.style);
    for (Diagnostic& finding : data_survey_findings(survey, tolerance_of(graph, survey["node"])))
      (finding.severity == Severity::kError ? errors : warnings).push_back(std::move(finding));
  }
  if (!console.json && !console.is_quiet() && errors.empty() && warnings.empty())
    console.out << "no problems found\n";
  warn(console, placed(warnings, resolved));
  errors = placed(errors, resolved);
  if (console.json) print_result(console, "data_check/1", *answer, errors);
  else if (!errors.empty()) return report(console, errors);
  return exit_code(errors);
}

}  // namespace runner
