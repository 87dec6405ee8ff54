#include "runner/cli/commands/data.h"

#include <algorithm>
#include <memory>
#include <string_view>

#include <nlohmann/json.hpp>

#include "runner/cli/command.h"
#include "runner/cli/data_names.h"
#include "runner/run/shown_conversation.h"

namespace runner {
namespace {

Diagnostic misused(std::string message, std::string help) {
  return {ErrorCode::kUsage, {}, "", std::move(message), std::move(help)};
}

ExitCode make_data(const DataFlags& flags, Console& console) {
  if (std::ranges::count(kMakeableData, flags.what) == 0) {
    std::string names;
    for (const std::string_view name : kMakeableData) names += (names.empty() ? "" : ", ") + std::string(name);
    return report(console, {misused("cannot make '" + flags.what + "'", "make: " + names)});
  }
  if (flags.out.empty())
    return report(console, {misused("data make needs a folder to write", "name one that does not exist: --out DIR")});
  const auto worker = flags.log.worker();
  if (!worker) return report(console, worker.errors());
  const nlohmann::ordered_json request = {
      {"protocol", kProtocolVersion}, {"request", "make_data"},       {"what", flags.what}, {"out", flags.out},
      {"classes", flags.classes},     {"per_class", flags.per_class}, {"size", flags.size}, {"seed", flags.seed},
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
    console.out << "made " << (*answer)["images"] << " images in " << flags.classes << " classes: " << flags.out
                << '\n';
  }
  return ExitCode::kDone;
}

Invocation declare_data() {
  const auto flags = std::make_shared<DataFlags>();
  Invocation verb;
  verb.add({.name = "action",
            .value = &flags->action,
            .summary = "make, or fetch",
            .choices = {"make", "fetch"},
            .required = true});
  verb.action = &flags->action;
  verb.add({.name = "what",
            .value = &flags->what,
            .summary = "image_folder (make), flowers102, cub200, or hf:ORG/NAME[@REVISION] (fetch)",
            .type = "DATA",
            .required = true});
  verb.add({.name = "--out",
            .value = &flags->out,
            .summary = "make: the folder to write, which must not exist; fetch: the folder, default data/, or for hf: "
                       "the Hugging Face cache",
            .type = "DIR"});
  verb.add({.name = "--from-file",
            .value = &flags->from_files,
            .summary = "fetch: published files that you already have",
            .type = "FILE"});
  verb.add({.name = "--file",
            .value = &flags->files,
            .summary = "fetch hf: these files instead of the weights and their descriptions",
            .type = "NAME"});
  verb.add({.name = "--url",
            .value = &flags->url,
            .summary = "fetch: the address to use instead of the published one",
            .type = "URL"});
  verb.add({.name = "--classes",
            .value = &flags->classes,
            .summary = "make: classes",
            .range = {2, 24},
            .shows_default = true});
  verb.add({.name = "--per-class",
            .value = &flags->per_class,
            .summary = "make: images of each class",
            .range = {1, 100'000},
            .shows_default = true});
  verb.add({.name = "--size",
            .value = &flags->size,
            .summary = "make: width and height in pixels",
            .range = {16, 1024},
            .shows_default = true});
  verb.add(
      {.name = "--seed", .value = &flags->seed, .summary = "make: the seed of every image", .shows_default = true});
  add_log_level(verb, flags->log, LogPlace::kStandardError);
  verb.run = [flags](Console& console) {
    return flags->action == "fetch" ? fetch_data(*flags, console) : make_data(*flags, console);
  };
  return verb;
}

}  // namespace

const Command kDataCommand = {
    "data", "Makes small data sets to try things out, and fetches published data and weights.",
    "retort data make image_folder --out shapes --classes 8 --per-class 100 --seed 1", declare_data};

}  // namespace runner
