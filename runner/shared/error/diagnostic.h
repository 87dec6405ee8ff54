#pragma once

#include <cassert>
#include <deque>
#include <iosfwd>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "runner/shared/error/error_code.h"
#include "runner/shared/error/exit_code.h"

namespace runner {

/// Text that the user wrote: a recipe file or one command-line override.
struct SourceText {
  std::string name;  ///< as shown in messages: "recipes/classify.yaml" or "override 2"
  std::string contents;
};

/// A position in a SourceText. Lines and columns are 1-based; columns count bytes.
struct Location {
  const SourceText* source = nullptr;  ///< null: the position is unknown
  int line = 0;
  int column = 0;
};

/// Owns all source texts of one invocation. Must outlive all Locations and Values that point into
/// them.
class Sources {
 public:
  const SourceText& add(std::string name, std::string contents) {
    return texts_.emplace_back(SourceText{std::move(name), std::move(contents)});
  }
  const std::deque<SourceText>& all() const { return texts_; }

 private:
  std::deque<SourceText> texts_;  // a deque: addresses are stable
};

/// A related location, e.g. "first defined here".
struct Note {
  Location where;
  std::string message;
};

enum class Severity { kError, kWarning };

/// One error or warning about the user's input, with its location.
struct Diagnostic {
  ErrorCode code{};
  Location where;
  std::string pointer;  ///< RFC 6901 pointer into the recipe, e.g. "/train/epochs"; empty if there
                        ///< is none
  std::string message;  ///< what is wrong, one line, no period
  std::string help;     ///< what to do instead, one line; empty if there is no useful advice
  std::vector<Note> notes = {};
  Severity severity = Severity::kError;
};

/// Every problem found in one pass, in source order; empty if there is none.
using Diagnostics = std::vector<Diagnostic>;

/// Sorts by source, line and column; diagnostics without a location come last. The sort is stable.
void sort_by_place(Diagnostics& diagnostics, const Sources& sources);

/// Returns the exit code for the first error; kDone if there is none.
ExitCode exit_code(const Diagnostics& diagnostics);

/// Prints "file:line:column: error[E0123]: message [/json/pointer]", the source line with a caret
/// under the column, then the help and the notes. Removes control characters from the source.
void print(std::ostream& out, const Diagnostic& diagnostic, bool color = false);

/// Returns {"severity", "code", "message", "pointer", "file", "line", "column", "help", "notes":
/// [...]}.
nlohmann::ordered_json to_json(const Diagnostic& diagnostic);

/// Returns the exit code for a program that `signal` stopped before it finished. `has_saved` is
/// true if the run can be resumed from a saved state. SIGHUP counts as SIGTERM.
ExitCode exit_code_of_stop(int signal, bool has_saved);

/// Returns the error for a command that was stopped by `signal` and leaves no record: kInterrupted
/// for SIGINT, kTerminated for other signals. `doing` describes what the command was doing, such as
/// "after waiting 2 min for a GPU".
Diagnostic stopped_by(int signal, const std::string& doing = "");

/// True if exit_code_of_stop() can return `code`.
bool says_stopped(ExitCode code);

/// A value, or all errors in the input that should have produced it. Has the interface of C++23's
/// std::expected<T, Diagnostics>, which C++20 lacks.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}
  Result(Diagnostics errors) : state_(std::move(errors)) { assert(!this->errors().empty()); }
  Result(Diagnostic error) : state_(Diagnostics{std::move(error)}) {}

  explicit operator bool() const { return state_.index() == 0; }
  T& operator*() & { return std::get<0>(state_); }
  const T& operator*() const& { return std::get<0>(state_); }
  T&& operator*() && { return std::get<0>(std::move(state_)); }
  T* operator->() { return &std::get<0>(state_); }
  const T* operator->() const { return &std::get<0>(state_); }
  const Diagnostics& errors() const { return std::get<1>(state_); }

 private:
  std::variant<T, Diagnostics> state_;
};

}  // namespace runner
