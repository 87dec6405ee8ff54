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

namespace runner {

/// A stream to a file descriptor that knows why it failed; what is written after a failure is
/// dropped. On a terminal each line appears when it is complete.
///
///   StandardOutput out(STDOUT_FILENO);
///   out << "result" << std::flush;
///   if (out.error() == ENOSPC) …
class StandardOutput final : public std::ostream {
 public:
  explicit StandardOutput(int descriptor);

  /// errno of the first write that failed; 0: none has.
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

/// Has descriptors 0 to 2 that the program was started without refer to /dev/null, so that no file
/// that is opened later takes their place. Writing to them still fails.
void fill_missing_descriptors();

/// Where a verb speaks: results go to `out`, talk to `err`. It lives as long as the program has
/// something to say.
struct Console {
  std::ostream& out;
  std::ostream& err;
  bool color = false;  ///< `err` is a terminal that understands colours
  bool json = false;   ///< results, errors and warnings as JSON on `out`
  Verbosity verbosity = Verbosity::kNormal;
  bool json_lines = false;  ///< with `json`: every document on a line of its own
  /// With `json`: the warnings so far.
  std::shared_ptr<nlohmann::ordered_json> warnings = {};
  Sources sources = {};  ///< what the verb reads; diagnostics point into it

  bool is_quiet() const { return verbosity == Verbosity::kQuiet; }
};

/// True if colours may be written to file descriptor `fd`: a terminal, TERM is not "dumb" and
/// NO_COLOR is not set.
bool wants_color(int fd);

/// Prints the results of a verb as the one document that `--json` prints: {"schema": shape,
/// "retort": version, "result": …, "errors": […] where there are any, "warnings": […]}.
/// schemas/output describes each shape, "validate/1" in validate.json.
void print_result(Console& console, std::string_view shape, const nlohmann::ordered_json& result,
                  const Diagnostics& errors = {});

/// Reports errors instead of results and returns the exit code: as text on `err`, where the first
/// 100 are printed and the others counted, or as such a document of the shape "errors/1".
ExitCode report(Console& console, const Diagnostics& diagnostics);

/// How the program ends after a verb that ended with `code`: what it has printed is written out to
/// `standard`, which is `console.out`. Results that could not be written are an error, and the
/// program's exit code unless the verb failed itself; where the reader has closed the pipe, the
/// program ends by SIGPIPE and says nothing, as `cat` does.
ExitCode finish(Console& console, StandardOutput& standard, ExitCode code);

/// Warnings only, on `err`; silent when quiet. With `json` they come with the results.
void warn(Console& console, const Diagnostics& warnings);

/// Taking a lease that warns of what it waits for. `console` is borrowed.
Lease::Options with_warnings(Console& console);

}  // namespace runner
