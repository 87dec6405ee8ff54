#include <nlohmann/json.hpp>

#include "runner/command.h"
#include "runner/schema/kind_listing.h"
#include "runner/prepare.h"

namespace runner {

ExitCode schema_command(const Arguments& arguments, Console& console) {
  const SchemaSet schemas = shipped_schemas();
  const auto document = published_schema(schemas, arguments.subject.empty() ? "recipe" : arguments.subject);
  if (!document) return report(console, document.errors());
  console.out << document->dump(2) << '\n';
  return ExitCode::kDone;
}

}  // namespace runner
