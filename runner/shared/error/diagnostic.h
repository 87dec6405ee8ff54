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

/// A text the user wrote: a recipe file or one command-line override.
struct SourceText {
  std::string name;  ///< as shown in messages: "recipes/classify.yaml" or "override 2"
  std::string contents;
};

/// A place in a SourceText. Lines and columns are 1-based; columns count bytes.
struct Location {
  const SourceText* source = nullptr;  ///< null: the place is not known
  int line = 0;
  int column = 0;
};

/// Owns every text of one invocation. Must outlive all Locations and Values made from them.
class Sources {
 public:
  const SourceText& add(std::string name, std::string contents) {
    return texts_.emplace_back(SourceText{std::move(name), std::move(contents)});
  }
  const std::deque<SourceText>& all() const { return texts_; }

 private:
  std::deque<SourceText> texts_;  // a deque: addresses stay put
};

/// A related place, e.g. "first defined here".
struct Note {
  Location where;
  std::string message;
};

enum class Severity { kError, kWarning };

/// One thing wrong with what the user gave, at the place where they gave it.
struct Diagnostic {
  ErrorCode code{};
  Location where;
  std::string pointer;  ///< RFC 6901 pointer into the recipe, e.g. "/train/epochs"; empty when
                        ///< there is none
  std::string message;  ///< what is wrong, one line, no full stop
  std::string help;     ///< what to do instead, one line; empty when there is no good advice
  std::vector<Note> notes = {};
  Severity severity = Severity::kError;
};

/// Every problem found in one pass, in source order. Empty means success.
using Diagnostics = std::vector<Diagnostic>;

/// Sorts by source, line and column; what has no place comes last. Stable.
void sort_by_place(Diagnostics& diagnostics, const Sources& sources);

/// The exit code of the first error; kDone when there is none.
ExitCode exit_code(const Diagnostics& diagnostics);

/// Writes "file:line:column: error[E0123]: message [/json/pointer]", the source line with a caret
/// under the column, then the help and the notes. Control characters of the source are not passed
/// on.
void print(std::ostream& out, const Diagnostic& diagnostic, bool color = false);

/// {"severity", "code", "message", "pointer", "file", "line", "column", "help", "notes": [...]}.
nlohmann::ordered_json to_json(const Diagnostic& diagnostic);

/// How a program ends that `signal` has stopped before its work was done: `has_saved` says whether
/// a resumed run continues from there. SIGHUP counts as SIGTERM.
ExitCode exit_code_of_stop(int signal, bool has_saved);

/// That `signal` has stopped what leaves no record, `doing` something, "after waiting 2 min for a
/// GPU": kInterrupted of SIGINT, kTerminated of others.
Diagnostic stopped_by(int signal, const std::string& doing = "");

/// Is `code` one that exit_code_of_stop() gives?
bool says_stopped(ExitCode code);

/// A value, or everything that is wrong with the input it was to be made from.
/// The shape of C++23's std::expected<T, Diagnostics>, which C++20 lacks.
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
