#include "runner/parent/cli/program.h"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>
#include <span>
#include <system_error>

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include "runner/parent/cli/command.h"
#include "runner/parent/cli/command_line.h"
#include "runner/parent/cli/launched.h"
#include "runner/parent/compile/recipe.h"
#include "runner/shared/error/system_limit.h"
#include "runner/shared/text/printable.h"
#include "runner/shared/text/units.h"
#include "runner/shared/text/utf8.h"

namespace runner {
namespace {

/// Expands ~/ at the start of a path to the home folder, since a shell does not do this in
/// --out=~/figures or in quoted words.
std::vector<std::string> with_homes(std::vector<std::string> words) {
  for (std::string& word : words) {
    const std::size_t value = word.starts_with("--") ? word.find('=') + 1 : 0;
    word = word.substr(0, value) + with_home(word.substr(value));
  }
  return words;
}

ExitCode run_words(std::span<const std::string> words, Console& console) {
  if (!words.empty() && words[0] == "__complete") return complete_words(words.subspan(1), console);
  console.json = std::ranges::count(words, "--json") > 0;  // also applies to errors in the words
  if (const Diagnostics errors = check_texts(words); !errors.empty())
    return report(console, errors);
  const auto parsed = parse_command_line(words);
  if (!parsed) return report(console, parsed.errors());
  if (const auto* help = std::get_if<HelpText>(&*parsed)) {
    console.out << help->text;
    return help->about.name.empty() ? ExitCode::kDone : help_about_recipe(help->about, console);
  }
  const auto& line = std::get<ParsedLine>(*parsed);
  console.json = line.output.json;
  console.verbosity = line.output.quiet     ? Verbosity::kQuiet
                      : line.output.verbose ? Verbosity::kVerbose
                                            : Verbosity::kNormal;
  if (line.invocation.is_single) {
    const Diagnostics errors =
        refused_under_launcher(line.verb, "start it once, without the launcher");
    if (!errors.empty()) return report(console, errors);
  }
  return line.invocation.run(console);
}

ExitCode run_or_report(std::span<const std::string> words, Console& console) {
  try {
    if (auto error = raise_stack_limit()) return report(console, {*std::move(error)});
    return run_words(words, console);
  } catch (const std::exception& error) {
    return report(console, {unexpected(error)});
  }
}

}  // namespace

int run_program(const std::vector<std::string>& words) {
  StandardOutput results(STDOUT_FILENO);
  std::cerr.tie(&results);
  Console console{.out = results,
                  .err = std::cerr,
                  .color = wants_color(STDERR_FILENO),
                  .style = standard_output_style()};
  const bool completes = !words.empty() && words[0] == "__complete";
  const ExitCode code = run_or_report(completes ? words : with_homes(words), console);
  std::cerr.tie(nullptr);
  return static_cast<int>(finish(console, results, code));
}

std::optional<Diagnostic> raise_stack_limit() {
  constexpr rlim_t kLeast = 1 << 20, kUsual = 8 << 20;
  rlimit stack{};
  if (getrlimit(RLIMIT_STACK, &stack) != 0 || stack.rlim_cur == RLIM_INFINITY ||
      stack.rlim_cur >= kLeast)
    return {};
  rlimit raised{.rlim_cur = kUsual, .rlim_max = std::max<rlim_t>(stack.rlim_max, kUsual)};
  if (setrlimit(RLIMIT_STACK, &raised) != 0) {  // only root may exceed the hard limit
    raised = {.rlim_cur = std::min<rlim_t>(stack.rlim_max, kUsual), .rlim_max = stack.rlim_max};
    if (raised.rlim_cur < kLeast || setrlimit(RLIMIT_STACK, &raised) != 0) {
      return Diagnostic{ErrorCode::kDeviceUnavailable,
                        {},
                        "",
                        "the stack is limited to " +
                            bytes_text(static_cast<std::int64_t>(stack.rlim_max)) + ", but " +
                            bytes_text(static_cast<std::int64_t>(kLeast)) + " is needed",
                        "raise the limit: `ulimit -s 8192`"};
    }
  }
  // At program start, the C library set the default stack size for threads to the old limit.
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return {};
  pthread_attr_setstacksize(&attributes, raised.rlim_cur);
  pthread_setattr_default_np(&attributes);
  pthread_attr_destroy(&attributes);
  return {};
}

namespace {

void check(const std::string& what, std::string_view name, Diagnostics& errors) {
  if (!invalid_utf8(name)) return;
  errors.push_back(
      {ErrorCode::kUsage,
       {},
       "",
       what + " is not UTF-8 text: '" + with_escapes(name) + "'",
       "rename it; `convmv -f latin1 -t utf8 --notest NAME` converts names from older systems"});
}

/// True for an empty word, or a flag with an empty value: --out=
bool is_empty(std::string_view word) {
  return word.empty() ||
         (word.starts_with("--") && word.size() > 3 && word.find('=') == word.size() - 1);
}

/// Reports an empty word, which is not a path, a name or a number. A flag that treats an empty
/// value as "not given" would silently ignore what was meant.
void check_filled(std::span<const std::string> words, std::size_t place, Diagnostics& errors) {
  const std::string& word = words[place];
  if (!is_empty(word)) return;
  const std::string before = place > 0 && words[place - 1].starts_with('-')
                                 ? " after '" + printable(words[place - 1]) + "'"
                                 : "";
  errors.push_back(
      {ErrorCode::kUsage,
       {},
       "",
       (word.empty() ? "the argument" + before : "'" + printable(word) + "'") + " is empty",
       "give a value, or leave it out; in a script, check that the variable is not empty"});
}

}  // namespace

Diagnostics check_texts(std::span<const std::string> words) {
  Diagnostics errors;
  for (std::size_t i = 0; i < words.size(); ++i) check_filled(words, i, errors);
  for (const std::string& word : words) check("an argument", word, errors);
  std::error_code error;
  check("the name of the working folder", std::filesystem::current_path(error).native(), errors);
  for (const char* const name :
       {"HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR", "TMPDIR", "HF_HOME", "HF_HUB_CACHE"}) {
    const char* const value = std::getenv(name);
    if (value) check("the folder that " + std::string(name) + " names", value, errors);
  }
  return errors;
}

}  // namespace runner
