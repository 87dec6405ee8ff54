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

/// The recipe named on a command line, with its overrides and search folders.
struct NamedRecipe {
  std::string name = {};  ///< a recipe's name or file
  std::string config_name =
      {};  ///< the value of --config-name; parse_command_line() stores it in `name`
  std::vector<std::string> overrides = {};  ///< key=value, as typed
  std::string config_path = {};  ///< folder to search for recipes, instead of the working directory
  std::vector<std::string> config_dirs =
      {};               ///< additional folders that contain recipes, or recipes/ and experiments/
  bool strict = false;  ///< treat warnings as errors
};

/// A flag or a positional argument of a verb: how it appears in help, which values it accepts, and
/// where its value is stored.
///
///   {.name = "--only", .value = &options.only, .summary = "Run only this node and the nodes that
///   it needs", .type = "NODE"}
struct Parameter {
  /// A bool is a flag without a value. A list takes all the words that follow, unless `once_each`
  /// is set.
  using Value = std::variant<bool*, std::string*, std::int64_t*, std::vector<std::string>*>;
  struct Range {
    std::int64_t least, most;
  };

  std::string name;  ///< "recipe": a positional argument; "--only", "-p,--package": flags
  Value value;       ///< borrowed; its initial value is the default
  std::string summary;
  std::string type = {};  ///< the value's type for help and completion: "DIR"; may be empty
  std::vector<std::string> choices = {};  ///< the allowed values; empty: any
  Range range = {0, INT64_MAX};           ///< allowed numbers
  bool required = false;
  bool is_written = false;     ///< the verb writes this file or folder, so a URL is an error
  bool once_each = false;      ///< a list flag adds one value each time it is used
  bool shows_default = false;  ///< help shows the default
  std::string assumed = {};    ///< the default that help shows, if not the initial value
  std::string excludes = {};   ///< a flag that cannot be combined with this one
  /// If set, a value N other than 0 adds the override `key`=N to the verb's overrides.
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
  std::vector<Parameter> parameters = {};         ///< listed in the order of `retort VERB --help`
  std::vector<std::string>* overrides = nullptr;  ///< where overrides are stored; null: not allowed
  NamedRecipe* recipe =
      nullptr;  ///< set if the verb takes a recipe, which may be anywhere on the command line
  std::function<bool()> needs_recipe = [] { return true; };
  std::vector<std::string> no_recipes = {};  ///< words accepted instead of a recipe: `show` in
                                             ///< `sweep show`
  std::string json_summary =
      "Results, errors and warnings as JSON on standard output";  ///< help text of --json
  const std::string* action =
      nullptr;  ///< the chosen action, if the verb has several, such as `config show`
  /// True if the verb does its work in one process. Under a launcher, such as torchrun, every
  /// process would repeat it.
  bool is_single = false;
  std::function<ExitCode(Console&)> run = {};

  void add(Parameter parameter) { parameters.push_back(std::move(parameter)); }
  /// Adds a recipe, overrides, and the flags that say where to look for recipes.
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
extern const Command kEmbedCommand;
extern const Command kExportCommand;
extern const Command kAnalyzeCommand;
extern const Command kReportCommand;
extern const Command kServeCommand;
extern const Command kCompareCommand;
extern const Command kRunsCommand;
extern const Command kSweepCommand;
extern const Command kWatchCommand;
extern const Command kPlanCommand;
extern const Command kCertifyCommand;
extern const Command kLrFindCommand;
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

/// Returns all verbs, in the order of `retort --help`.
std::span<const Command* const> all_commands();
/// Returns the verb called `name`, or nullptr if there is none.
const Command* find_command(std::string_view name);

/// Prints the part of `retort run NAME --help` that describes the recipe, after the verb's own
/// help.
ExitCode help_about_recipe(const NamedRecipe& recipe, Console& console);

/// Implements `retort __complete`, which the scripts of `retort completion` call. `words` is either
/// "words" followed by the words after the program's name up to the cursor, or "line" followed by
/// the line up to the cursor and bash's COMP_WORDBREAKS. Prints one candidate per line: for "words"
/// the whole word, a tab and its description, for "line" the text that bash inserts.
ExitCode complete_words(std::span<const std::string> words, Console& console);

/// The runs named on a command line, by their own folders or by folders that contain runs.
struct RunSelection {
  std::vector<std::string> folders;
  bool all = false;  ///< include unfinished runs found in folders
};

/// Adds the required positional argument `runs` and the flag --all to `verb`.
void add_runs(Invocation& verb, RunSelection& selection, const std::string& summary);

/// Reads the selected runs in the order in which they were named. A run found in a folder is
/// skipped if it has already been named. Prints to console.err how many runs were left out.
Result<std::vector<RecordedRun>> selected_runs(const RunSelection& selection, Console& console);

/// Flags shared by several verbs.

/// How much of the worker's output a verb logs, and how long the worker may take to stop.
struct LogFlags {
  std::string level;                ///< --log-level, one of kLogLevels; empty if not given
  std::int64_t grace_seconds = 60;  ///< --grace

  /// Returns the level from --log-level, else from the RETORT_LOG variable, else info. An unknown
  /// level in the variable is an error.
  Result<LogLevel> chosen() const;

  /// Returns the command that starts the worker next to this program, with the chosen log level and
  /// grace period.
  Result<WorkerCommand> worker() const;
  /// Returns the command that starts `program` as the worker.
  Result<WorkerCommand> worker(std::filesystem::path program) const;
};

enum class LogPlace { kFile, kStandardError };

/// Adds --log-level. `place` says where the log lines go: to the run's log.txt or, for a verb
/// without a record, to standard error.
void add_log_level(Invocation& verb, LogFlags& flags, LogPlace place);

/// Adds --grace, for a verb with a worker that saves its state when asked to stop.
void add_grace(Invocation& verb, LogFlags& flags);

/// Which nodes reuse results of earlier runs.
struct ReuseFlags {
  bool all = false;   ///< --reuse
  bool none = false;  ///< --no-reuse

  ReuseOptions::Which which() const;
};

/// Adds --no-reuse and, if `all_summary` is not empty, --reuse with that help text.
void add_reuse(Invocation& verb, ReuseFlags& flags, const std::string& all_summary = "");

/// Adds --strict to a verb that runs a recorded recipe. The flag affects only the plans.
void add_strict(Invocation& verb, bool& strict);

/// Adds `flag`, shorthand for the override device.count=N. The number N is stored in `ranks`.
void add_ranks(Invocation& verb, const std::string& flag, std::int64_t& ranks);

}  // namespace runner
