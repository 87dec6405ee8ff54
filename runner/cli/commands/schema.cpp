#include <nlohmann/json.hpp>

#include "runner/cli/command.h"
#include "runner/cli/prepare.h"
#include "runner/schema/published_schema.h"

namespace runner {

ExitCode schema_command(const Arguments& arguments, Console& console) {
  const SchemaSet schemas = shipped_schemas();
  const std::string name = arguments.subject.empty() ? "recipe" : arguments.subject;
  const auto document = arguments.editor ? editor_schema(schemas, name) : published_schema(schemas, name);
  if (!document) return report(console, document.errors());
  // The schemas for editors are files that only programs read.
  console.out << document->dump(arguments.editor ? -1 : 2) << '\n';
  return ExitCode::kDone;
}

}  // namespace runner
