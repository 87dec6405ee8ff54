#pragma once

#include <cstdint>
#include <filesystem>
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

/// The recipe that a command line names, with its overrides and search folders.
struct NamedRecipe {
  std::string name = {};  ///< a recipe's name or file
  std::string config_name =
      {};  ///< the value of --config-name; parse_command_line() copies it to `name`
  std::vector<std::string> overrides = {};  ///< key=value, as typed
  std::string config_path =
      {};  ///< the folder to look for recipes in instead of the working directory
  std::vector<std::string> config_dirs =
      {};               ///< additional folders with recipes, or with recipes/ and experiments/
  bool strict = false;  ///< composition warnings are errors
};

/// A flag or a positional word of a verb: how help shows it, which values it takes, and where the
/// value is stored.
///
///   {.name = "--only", .value = &options.only, .summary = "Run this node and what it needs", .type
///   = "NODE"}
struct Parameter {
  /// bool: a flag without a value. A list takes all following words, unless `once_each` is set.
  using Value = std::variant<bool*, std::string*, std::int64_t*, std::vector<std::string>*>;
  struct Range {
    std::int64_t least, most;
  };

  std::string name;  ///< "recipe": a positional word; "--only", "-p,--package": flags
  Value value;       ///< borrowed; its current content is the default
  std::string summary;
  std::string type = {};  ///< the value's type for help and completion: "DIR"; may be empty
  std::vector<std::string> choices = {};  ///< the allowed values; empty: any
  Range range = {0, INT64_MAX};           ///< allowed numbers
  bool required = false;
  bool is_written = false;     ///< a file or folder that the verb writes: no address
  bool once_each = false;      ///< for a list: each flag takes one value
  bool shows_default = false;  ///< help shows the default
  std::string assumed = {};    ///< help shows this as the default
  std::string excludes = {};   ///< a flag that cannot be combined with this one
  /// The number, unless it is 0, is appended to the verb's overrides as one of this key.
  std::string key = {};

  bool is_flag() const { return name.starts_with('-'); }
};

/// A verb and its parameters, set up for one command line. `run` owns the options that the
/// parameters point into.
///
///   const auto options = std::make_shared<GraphOptions>();
///   Invocation verb;
///   verb.add_recipe(options->recipe);
///   verb.add({.name = "--format", .value = &options->format, .summary = "text or dot"});
///   verb.run = [options](Console& console) { return draw(*options, console); };
struct Invocation {
  std::vector<Parameter> parameters = {};         ///< in the order of `retort VERB --help`
  std::vector<std::string>* overrides = nullptr;  ///< where the verb's overrides are, if it has any
  NamedRecipe* recipe =
      nullptr;  ///< set if the verb takes a recipe, which may stand anywhere among the words
  std::function<bool()> needs_recipe = [] { return true; };
  std::vector<std::string> no_recipes = {};  ///< words that may stand in the recipe's place without
                                             ///< being one, such as `show` in `sweep show`
  std::string json_summary =
      "Results, errors and warnings as JSON on standard output";  ///< help text of --json
  const std::string* action =
      nullptr;  ///< the chosen action, if the verb has several, such as `config show`
  std::function<ExitCode(Console&)> run = {};

  void add(Parameter parameter) { parameters.push_back(std::move(parameter)); }
  /// Adds a recipe, overrides, and the flags that set where recipes are searched.
  void add_recipe(NamedRecipe& target);
};

/// One verb of the command line: a row of the table in command.cpp. Each verb is defined in its own
/// file in runner/parent/cli/commands/.
struct Command {
  std::string_view name;
  std::string_view summary;  ///< one line in `retort --help`
  std::string_view example;  ///< a working command line
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
extern const Command kTrustCommand;
extern const Command kCompletionCommand;

/// All verbs, in the order of `retort --help`.
std::span<const Command* const> all_commands();
/// Returns nullptr if there is no such verb.
const Command* find_command(std::string_view name);

/// Prints what `retort run NAME --help` says about the recipe, after the verb's own help.
ExitCode help_about_recipe(const NamedRecipe& recipe, Console& console);

/// `retort __complete`, which the scripts of `retort completion` call. The arguments are either
/// "words", then the words after the program's name up to the cursor; or "line", then the line up
/// to the cursor and bash's COMP_WORDBREAKS. Prints one candidate per line. For "words", that is
/// the whole word, a tab and its description; for "line", the text that bash inserts.
ExitCode complete_words(std::span<const std::string> words, Console& console);

/// The runs that a command line names, by their own folders or by folders that contain runs.
struct RunSelection {
  std::vector<std::string> folders;
  bool all = false;  ///< in a folder of runs, include those that have not finished
};

/// Adds the required positional `runs`, and --all.
void add_runs(Invocation& verb, RunSelection& selection, const std::string& summary);

/// Reads the runs in the order named. A run found in a folder is skipped if it was already named.
/// Prints on console.err how many runs were left out.
Result<std::vector<RecordedRun>> selected_runs(const RunSelection& selection, Console& console);

/// Flags that several verbs share.

/// How much of its worker's output a verb logs, and how long the worker may take to stop.
struct LogFlags {
  std::string level;                ///< --log-level, one of kLogLevels; empty if not given
  std::int64_t grace_seconds = 60;  ///< --grace

  /// The level from --log-level, else from the variable RETORT_LOG, else info. An unknown word in
  /// the variable is an error.
  Result<LogLevel> chosen() const;

  /// The worker next to this program. It logs lines of that level and more severe ones, and is
  /// killed if it does not stop in time.
  Result<WorkerCommand> worker() const;
  /// The same for another `program`.
  Result<WorkerCommand> worker(std::filesystem::path program) const;
};

enum class LogPlace { kFile, kStandardError };

/// Adds --log-level, for a verb that logs to the log.txt of a run, or that leaves no record and
/// shows its log lines.
void add_log_level(Invocation& verb, LogFlags& flags, LogPlace place);

/// Adds --grace, for a verb that saves when it is asked to stop.
void add_grace(Invocation& verb, LogFlags& flags);

/// Which nodes reuse results of earlier runs.
struct ReuseFlags {
  bool all = false;   ///< --reuse
  bool none = false;  ///< --no-reuse

  ReuseOptions::Which which() const;
};

/// Adds --no-reuse, and --reuse if `all_summary`, its description, is not empty.
void add_reuse(Invocation& verb, ReuseFlags& flags, const std::string& all_summary = "");

/// Adds `flag`, which is short for the override device.count=N, with the number stored in `ranks`.
void add_ranks(Invocation& verb, const std::string& flag, std::int64_t& ranks);

}  // namespace runner
