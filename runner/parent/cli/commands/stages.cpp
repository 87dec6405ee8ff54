#include <memory>

#include <nlohmann/json.hpp>

#include "runner/parent/cli/command.h"
#include "runner/parent/cli/prepare.h"
#include "runner/parent/schema/option_listing.h"

namespace runner {
namespace {

ExitCode list_stages(const std::string& format, Console& console) {
  const SchemaSet& schemas = shipped_schemas();
  const bool is_reference = format == "md";
  if (!console.json) console.out << (is_reference ? kinds_markdown(schemas) : stages_text(schemas));
  else if (is_reference)
    print_result(console, "drawing/1", {{"format", format}, {"text", kinds_markdown(schemas)}});
  else print_result(console, "stages/1", stages_json(schemas));
  return ExitCode::kDone;
}

Invocation declare_stages() {
  const auto format = std::make_shared<std::string>();
  Invocation verb;
  verb.add({.name = "--format",
            .value = format.get(),
            .summary = "text: the kinds with their ports; md: a reference of all kinds and "
                       "options, in Markdown",
            .type = "FORMAT",
            .choices = {"text", "md"},
            .assumed = "text"});
  verb.run = [format](Console& console) { return list_stages(*format, console); };
  return verb;
}

}  // namespace

const Command kStagesCommand = {"stages", "Lists the kinds of stages with their ports.",
                                "retort stages --format md", declare_stages};

}  // namespace runner
