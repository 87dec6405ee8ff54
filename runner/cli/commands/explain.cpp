#include <memory>

#include "runner/cli/command.h"
#include "runner/cli/explain.h"
#include "runner/cli/prepare.h"

namespace runner {
namespace {

ExitCode explain_word(const std::string& what, Console& console) {
  const auto explanation = explain(shipped_schemas(), what);
  if (!explanation) return report(console, explanation.errors());
  if (console.json) print_result(console, "explain/1", explanation->json);
  else console.out << explanation->text;
  return ExitCode::kDone;
}

Invocation declare_explain() {
  const auto what = std::make_shared<std::string>();
  Invocation verb;
  verb.add({.name = "what",
            .value = what.get(),
            .summary = "A key such as train.epochs, a kind such as train.supervised, or E0301",
            .required = true});
  verb.run = [what](Console& console) { return explain_word(*what, console); };
  return verb;
}

}  // namespace

const Command kExplainCommand = {"explain", "Explains an option, a kind of stage or an error.",
                                 "retort explain train.epochs", declare_explain};

}  // namespace runner
