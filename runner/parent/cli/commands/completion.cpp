#include <memory>

#include <nlohmann/json.hpp>

#include "runner/parent/cli/command.h"
#include "runner/parent/cli/completion/complete.h"
#include "runner/parent/cli/completion/shell_line.h"
#include "runner/shared/text/printable.h"

namespace runner {
namespace {

Invocation declare_completion() {
  const auto shell = std::make_shared<std::string>();
  Invocation verb;
  verb.add({.name = "shell",
            .value = shell.get(),
            .summary = "bash, zsh or fish",
            .choices = {"bash", "zsh", "fish"},
            .required = true});
  verb.run = [shell](Console& console) {
    if (console.json)
      print_result(console, "completion/1",
                   {{"shell", *shell}, {"script", completion_script(*shell)}});
    else console.out << completion_script(*shell);
    return ExitCode::kDone;
  };
  return verb;
}

}  // namespace

const Command kCompletionCommand = {"completion",
                                    "Prints a script that sets up shell completion for retort.",
                                    "retort completion bash", declare_completion};

ExitCode complete_words(std::span<const std::string> words, Console& console) {
  if (words.size() == 3 && words[0] == "line") {
    const ShellLine line = read_shell_line(words[1], words[2]);
    if (line.words.size() < 2) return ExitCode::kDone;
    for (const Candidate& candidate : complete(std::span(line.words).subspan(1))) {
      console.out << shell_replacement(line, candidate.text) << '\n';
    }
  } else if (words.size() >= 2 && words[0] == "words") {
    for (const Candidate& candidate : complete(words.subspan(1))) {
      console.out << candidate.text;
      if (!candidate.description.empty()) console.out << '\t' << printable(candidate.description);
      console.out << '\n';
    }
  }
  return ExitCode::kDone;
}

}  // namespace runner
