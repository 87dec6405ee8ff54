#include <nlohmann/json.hpp>

#include "runner/cli/command.h"
#include "runner/schema/kind_listing.h"
#include "runner/cli/prepare.h"

namespace runner {

ExitCode stages_command(const Arguments&, Console& console) {
  const SchemaSet schemas = shipped_schemas();
  if (console.json) console.out << stages_json(schemas).dump(2) << '\n';
  else console.out << stages_text(schemas);
  return ExitCode::kDone;
}

}  // namespace runner
