#include <memory>

#include <nlohmann/json.hpp>

#include "runner/parent/cli/command.h"
#include "runner/parent/cli/prepare.h"
#include "runner/parent/schema/published_schema.h"

namespace runner {
namespace {

struct SchemaFlags {
  std::string kind;  ///< the kind to describe; empty: recipes
  bool editor = false;
};

ExitCode print_schema(const SchemaFlags& flags, Console& console) {
  const SchemaSet& schemas = shipped_schemas();
  const std::string name = flags.kind.empty() ? "recipe" : flags.kind;
  const auto document =
      flags.editor ? editor_schema(schemas, name) : published_schema(schemas, name);
  if (!document) return report(console, document.errors());
  if (console.json) print_result(console, "schema/1", *document);
  // Schemas for editors are read only by programs, so they need no indentation.
  else console.out << document->dump(flags.editor ? -1 : 2) << '\n';
  return ExitCode::kDone;
}

Invocation declare_schema() {
  const auto flags = std::make_shared<SchemaFlags>();
  Invocation verb;
  verb.add(
      {.name = "kind",
       .value = &flags->kind,
       .summary = "A kind such as train.supervised or train/optimizer/adam; default: recipes"});
  verb.add({.name = "--editor",
            .value = &flags->editor,
            .summary = "Print the schema that editors use to check a recipe, or a file of a group "
                       "such as train"});
  verb.run = [flags](Console& console) { return print_schema(*flags, console); };
  return verb;
}

}  // namespace

const Command kSchemaCommand = {"schema", "Prints the JSON schema of a kind, or of recipes.",
                                "retort schema train.supervised", declare_schema};

}  // namespace runner
