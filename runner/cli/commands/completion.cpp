#include "runner/cli/command.h"
#include "runner/cli/completion/complete.h"
#include "runner/cli/completion/completion_script.h"
#include "runner/cli/completion/shell_line.h"
#include "runner/text/printable.h"

namespace runner {

ExitCode completion_command(const Arguments& arguments, Console& console) {
  console.out << completion_script(arguments.subject);
  return ExitCode::kDone;
}

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
