#include <memory>

#include <nlohmann/json.hpp>

#include "runner/parent/cli/command.h"
#include "runner/parent/schema/kind_listing.h"
#include "runner/parent/cli/prepare.h"

namespace runner {
namespace {

ExitCode list_stages(Console& console) {
  const SchemaSet& schemas = shipped_schemas();
  if (console.json) print_result(console, "stages/1", stages_json(schemas));
  else console.out << stages_text(schemas);
  return ExitCode::kDone;
}

Invocation declare_stages() {
  Invocation verb;
  verb.run = list_stages;
  return verb;
}

}  // namespace

const Command kStagesCommand = {"stages", "Lists the kinds of stages with their ports.", "retort stages",
                                declare_stages};

}  // namespace runner
