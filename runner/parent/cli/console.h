#pragma once

#include <array>
#include <memory>
#include <ostream>
#include <streambuf>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "runner/shared/disk/lease.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/error/log_level.h"
#include "runner/shared/text/terminal.h"

namespace runner {

/// An output stream to a file descriptor. Records why a write failed and drops everything written
/// after that. On a terminal, writes each line once it is complete.
///
///   StandardOutput out(STDOUT_FILENO);
///   out << "result" << std::flush;
///   if (out.error() == ENOSPC) …
class StandardOutput final : public std::ostream {
 public:
  explicit StandardOutput(int descriptor);

  /// Returns errno of the first failed write; 0 if none failed.
  int error() const { return buffer_.error(); }

 private:
  class Buffer final : public std::streambuf {
   public:
    explicit Buffer(int descriptor);
    int error() const { return error_; }

   private:
    int_type overflow(int_type c) override;
    std::streamsize xsputn(const char* text, std::streamsize size) override;
    int sync() override;
    bool write_all(const char* text, std::size_t size);

    const int descriptor_;
    const bool is_terminal_;
    int error_ = 0;
    std::array<char, 8192> waiting_;
  };

  Buffer buffer_;
};

/// Opens /dev/null for each of the descriptors 0 to 2 that was closed when the program
/// started, so that no file opened later gets one of these numbers. Reading from 0 and writing to 1
/// and 2 still fail.
void fill_missing_descriptors();

/// Where a verb prints: results to `out`, messages to `err`. Must outlive all printing.
struct Console {
  std::ostream& out;
  std::ostream& err;
  bool color = false;  ///< `err` is a terminal that supports colors
  bool json = false;   ///< print results, errors and warnings as JSON on `out`
  Verbosity verbosity = Verbosity::kNormal;
  bool json_lines = false;  ///< with `json`: print every document on one line
  /// With `json`: the warnings so far, printed together with the results.
  std::shared_ptr<nlohmann::ordered_json> warnings = {};
  TextStyle style = {};  ///< the style that `out` supports
  Sources sources = {};  ///< the texts read by the verb; diagnostics point into them

  bool is_quiet() const { return verbosity == Verbosity::kQuiet; }
};

/// True if colors may be written to file descriptor `fd`: it is a terminal, TERM is not "dumb" and
/// NO_COLOR is not set.
bool wants_color(int fd);

/// Prints a verb's results as the single document that `--json` produces: {"schema": shape,
/// "retort": version, "result": …, "errors": […] if there are any, "warnings": […]}. schemas/output
/// describes each shape: "validate/1" in validate.json.
void print_result(Console& console, std::string_view shape, const nlohmann::ordered_json& result,
                  const Diagnostics& errors = {});

/// Reports errors instead of results and returns the exit code. In text form, prints the first 100
/// to `err` and says how many more there are. With `json`, prints a document with the shape
/// "errors/1" to `out`.
ExitCode report(Console& console, const Diagnostics& diagnostics);

/// Finishes the program after a verb has returned `code`: flushes `standard`, which must be
/// `console.out`. Reports an error if results could not be written, and returns kCannotWrite unless
/// the verb itself failed. If the reader has closed the pipe, the program exits silently on
/// SIGPIPE, as `cat` does.
ExitCode finish(Console& console, StandardOutput& standard, ExitCode code);

/// Prints warnings to `err`, unless quiet. With `json`, keeps them until the results are printed.
void warn(Console& console, const Diagnostics& warnings);

/// Returns lease options with which the program prints warnings to `console` while it waits for the
/// lease. Borrows `console`.
Lease::Options with_warnings(Console& console);

}  // namespace runner
