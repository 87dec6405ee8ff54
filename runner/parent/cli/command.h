#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runner/parent/cli/console.h"
#include "runner/parent/run/worker_process.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/error/log_level.h"
#include "runner/shared/protocol/earlier_results.h"
#include "runner/shared/record/recorded_run.h"

namespace runner {

/// The recipe that a command line names, and what it says about it.
struct NamedRecipe {
  std::string name = {};  ///< a recipe's name or file
  std::string config_name =
      {};  ///< the same by --config-name; parse_command_line() puts it into `name`
  std::vector<std::string> overrides = {};  ///< key=value, as typed
  std::string config_path =
      {};  ///< the folder to look for recipes in instead of the working directory
  std::vector<std::string> config_dirs =
      {};               ///< further folders with recipes, or with recipes/ and experiments/
  bool strict = false;  ///< what composition warns of is an error
};

/// A flag of a verb, or a word at a certain place: how it is shown, what it takes, and where its
/// value goes.
///
///   {.name = "--only", .value = &options.only, .summary = "Run this node and what it needs", .type
///   = "NODE"}
struct Parameter {
  /// bool: a flag without a value. A list takes all the words that follow, unless `once_each`.
  using Value = std::variant<bool*, std::string*, std::int64_t*, std::vector<std::string>*>;
  struct Range {
    std::int64_t least, most;
  };

  std::string name;  ///< "recipe": a word at its place; "--only", "-p,--package": flags
  Value value;       ///< borrowed; what is there before is the default
  std::string summary;
  std::string type = {};  ///< what its value is, in help and for completion: "DIR"; may be empty
  std::vector<std::string> choices = {};  ///< the values it takes; empty: any
  Range range = {0, INT64_MAX};           ///< of a number
  bool required = false;
  bool once_each = false;      ///< of a list: one value after each flag
  bool shows_default = false;  ///< in help
  std::string assumed = {};    ///< shown in help as the default
  std::string excludes = {};   ///< a flag that cannot stand beside it

  bool is_flag() const { return name.starts_with('-'); }
};

/// A verb as one command line uses it: what may follow it, where that goes, and what is done then.
/// `run` owns the options that the parameters point into.
///
///   const auto options = std::make_shared<GraphOptions>();
///   Invocation verb;
///   verb.add_recipe(options->recipe);
///   verb.add({.name = "--format", .value = &options->format, .summary = "text or dot"});
///   verb.run = [options](Console& console) { return draw(*options, console); };
struct Invocation {
  std::vector<Parameter> parameters = {};  ///< in the order of `retort VERB --help`
  NamedRecipe* recipe =
      nullptr;  ///< of a verb that takes one: found among the words wherever it stands
  std::function<bool()> needs_recipe = [] { return true; };
  std::vector<std::string> no_recipes =
      {};  ///< words in the place of the recipe that are none, such as of `sweep show`
  std::string json_summary =
      "Results, errors and warnings as JSON on standard output";  ///< of --json, in help
  const std::string* action =
      nullptr;  ///< of a verb that does several things, such as `config show`: which
  std::function<ExitCode(Console&)> run = {};

  void add(Parameter parameter) { parameters.push_back(std::move(parameter)); }
  /// A recipe, overrides, and the flags that say where recipes are.
  void add_recipe(NamedRecipe& target);
};

/// One verb of the command line: a row of the table in command.cpp, defined in its file in
/// runner/parent/cli/commands/.
struct Command {
  std::string_view name;
  std::string_view summary;  ///< one line for `retort --help`
  std::string_view example;  ///< a line that works
  Invocation (*declare)();
};

extern const Command kRunCommand;
extern const Command kResumeCommand;
extern const Command kEvaluateCommand;
extern const Command kPredictCommand;
extern const Command kExportCommand;
extern const Command kAnalyzeCommand;
extern const Command kCompareCommand;
extern const Command kRunsCommand;
extern const Command kSweepCommand;
extern const Command kWatchCommand;
extern const Command kPlanCommand;
extern const Command kCertifyCommand;
extern const Command kValidateCommand;
extern const Command kGraphCommand;
extern const Command kConfigCommand;
extern const Command kStagesCommand;
extern const Command kSchemaCommand;
extern const Command kExplainCommand;
extern const Command kInitCommand;
extern const Command kDataCommand;
extern const Command kDevicesCommand;
extern const Command kDoctorCommand;
extern const Command kCompletionCommand;

/// Every verb, in the order of `retort --help`.
std::span<const Command* const> all_commands();
/// nullptr: there is no such verb.
const Command* find_command(std::string_view name);

/// What `retort run NAME --help` says of the recipe, after the help of the verb.
ExitCode help_about_recipe(const NamedRecipe& recipe, Console& console);

/// `retort __complete`, which the scripts of `retort completion` call: "words", then the words
/// after the program's name up to the cursor; or "line", then the line up to the cursor and bash's
/// COMP_WORDBREAKS. Prints a candidate a line: the whole word, and after a tab its description; for
/// a line what bash is to put in.
ExitCode complete_words(std::span<const std::string> words, Console& console);

/// The runs that a command line names: by their folders, or by folders that hold runs.
struct RunSelection {
  std::vector<std::string> folders;
  bool all = false;  ///< of a folder of runs also those that have not finished
};

/// The positional `runs`, which must be given, and --all.
void add_runs(Invocation& verb, RunSelection& selection, const std::string& summary);

/// Reads them in the order named, those of a folder unless they have been named already; how many
/// were left out is said on console.err.
Result<std::vector<RecordedRun>> selected_runs(const RunSelection& selection, Console& console);

/// Flags that several verbs have.

/// How much of what its worker does a verb writes down, and how long that may take to stop.
struct LogFlags {
  std::string level;                ///< --log-level, one of kLogLevels; empty: not given
  std::int64_t grace_seconds = 60;  ///< --grace

  /// As --log-level says, else as the variable RETORT_LOG, else info. An unknown word of the
  /// variable is an error.
  Result<LogLevel> chosen() const;

  /// The worker beside this program, which tells lines of that level and more severe ones, and is
  /// killed where it does not stop in time.
  Result<WorkerCommand> worker() const;
};

enum class LogPlace { kFile, kStandardError };

/// --log-level, of a verb whose lines go to the log.txt of a run, or that leaves no record and
/// shows them.
void add_log_level(Invocation& verb, LogFlags& flags, LogPlace place);

/// --grace, of a verb that saves where it is asked to stop.
void add_grace(Invocation& verb, LogFlags& flags);

/// Of which nodes the results of earlier runs are taken.
struct ReuseFlags {
  bool all = false;   ///< --reuse
  bool none = false;  ///< --no-reuse

  ReuseOptions::Which which() const;
};

/// --no-reuse; and, described by `all_summary`, --reuse, where that is not empty.
void add_reuse(Invocation& verb, ReuseFlags& flags, const std::string& all_summary = "");

}  // namespace runner
