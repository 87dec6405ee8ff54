#include "runner/cli/command.h"
#include "runner/cli/explain.h"
#include "runner/cli/prepare.h"

namespace runner {

ExitCode explain_command(const Arguments& arguments, Console& console) {
  const auto explanation = explain(shipped_schemas(), arguments.subject);
  if (!explanation) return report(console, explanation.errors());
  if (console.json) console.out << explanation->json.dump(2) << '\n';
  else console.out << explanation->text;
  return ExitCode::kDone;
}

}  // namespace runner
