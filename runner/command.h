#pragma once

#include <span>
#include <string>
#include <string_view>

#include "runner/arguments.h"
#include "runner/console.h"

namespace runner {

/// One verb of the command line.
struct Command {
  std::string_view name;
  std::string_view summary;  ///< one line for `retort --help`
  std::string_view example;  ///< a line that works
  ExitCode (*run)(const Arguments& arguments, Console& console);
};

/// Every verb, in the order of `retort --help`.
std::span<const Command> all_commands();

/// One a file in runner/commands/.
ExitCode run_command(const Arguments& arguments, Console& console);
ExitCode validate_command(const Arguments& arguments, Console& console);
ExitCode graph_command(const Arguments& arguments, Console& console);
ExitCode config_command(const Arguments& arguments, Console& console);
ExitCode config_diff_command(const Arguments& arguments, Console& console);
ExitCode stages_command(const Arguments& arguments, Console& console);
ExitCode schema_command(const Arguments& arguments, Console& console);
ExitCode data_command(const Arguments& arguments, Console& console);
ExitCode doctor_command(const Arguments& arguments, Console& console);
ExitCode init_command(const Arguments& arguments, Console& console);

}  // namespace runner
