#include "runner/shared/error/diagnostic.h"

#include <algorithm>
#include <csignal>
#include <ostream>
#include <string_view>
#include <tuple>

#include <nlohmann/json.hpp>

#include "runner/shared/text/printable.h"
#include "runner/shared/text/secret_name.h"

namespace runner {
namespace {

constexpr std::size_t kMaxShownLine = 160;  // maximum bytes of a source line to show

struct Style {
  std::string_view bold, red, yellow, cyan, off;
};
constexpr Style kPlain{};
constexpr Style kColor{"\x1b[1m", "\x1b[1;31m", "\x1b[1;33m", "\x1b[1;36m", "\x1b[0m"};

std::string_view nth_line(std::string_view text, int line) {
  while (--line > 0) text.remove_prefix(std::min(text.size(), text.find('\n') + 1));
  return text.substr(0, text.find_first_of("\r\n"));
}

/// Returns `text` without anything a terminal could interpret, with one column per character.
std::string shown(std::string_view text) {
  std::string result = printable(text);
  std::ranges::replace(result, '\t', ' ');
  return result;
}

/// Makes a message printable and masks secrets in it, since it may quote what the user typed.
std::string told(std::string_view text) { return shown(without_quoted_secrets(text)); }

void print_place(std::ostream& out, const Location& where, const Style& style) {
  if (!where.source) return;
  out << style.bold << shown(where.source->name);
  if (where.line > 0) out << ':' << where.line << ':' << where.column;
  out << ':' << style.off << ' ';
}

void print_excerpt(std::ostream& out, const Location& where, const Style& style) {
  if (!where.source || where.line <= 0 || where.column <= 0) return;
  const std::string quoted = quotable_line(nth_line(where.source->contents, where.line));
  std::string_view line = quoted;
  std::size_t caret = std::min<std::size_t>(where.column - 1, line.size());
  const std::size_t skipped = caret > kMaxShownLine / 2 ? caret - kMaxShownLine / 2 : 0;
  line.remove_prefix(skipped);
  caret -= skipped;
  const auto before = line.substr(0, caret);
  const auto is_start = [](unsigned char c) {
    return (c & 0xC0) != 0x80;
  };  // one column per character, not per byte
  const std::string number = std::to_string(where.line);
  out << "  " << number << " | " << shown(line.substr(0, kMaxShownLine)) << '\n'
      << "  " << std::string(number.size(), ' ') << " | "
      << std::string(std::ranges::count_if(before, is_start), ' ') << style.red << '^' << style.off
      << '\n';
}

}  // namespace

void sort_by_place(Diagnostics& diagnostics, const Sources& sources) {
  const auto rank = [&](const Location& where) -> std::size_t {
    const auto& all = sources.all();
    const auto found =
        std::ranges::find_if(all, [&](const SourceText& text) { return &text == where.source; });
    return static_cast<std::size_t>(found - all.begin());
  };
  std::ranges::stable_sort(diagnostics, {}, [&](const Diagnostic& d) {
    return std::tuple(rank(d.where), d.where.line, d.where.column);
  });
}

ExitCode exit_code(const Diagnostics& diagnostics) {
  const auto found = std::ranges::find(diagnostics, Severity::kError, &Diagnostic::severity);
  return found == diagnostics.end() ? ExitCode::kDone : info(found->code).exit;
}

void print(std::ostream& out, const Diagnostic& diagnostic, bool color) {
  const Style& style = color ? kColor : kPlain;
  const bool is_error = diagnostic.severity == Severity::kError;
  print_place(out, diagnostic.where, style);
  out << (is_error ? style.red : style.yellow) << (is_error ? "error" : "warning") << '['
      << name(diagnostic.code) << ']' << style.off << ": " << style.bold << told(diagnostic.message)
      << style.off;
  if (!diagnostic.pointer.empty()) out << " [" << shown(diagnostic.pointer) << ']';
  out << '\n';
  print_excerpt(out, diagnostic.where, style);
  if (!diagnostic.help.empty())
    out << "  " << style.cyan << "help" << style.off << ": " << told(diagnostic.help) << '\n';
  for (const Note& note : diagnostic.notes) {
    out << "  ";
    print_place(out, note.where, style);
    out << style.cyan << "note" << style.off << ": " << told(note.message) << '\n';
  }
}

nlohmann::ordered_json to_json(const Diagnostic& diagnostic) {
  nlohmann::ordered_json json = {
      {"severity", diagnostic.severity == Severity::kError ? "error" : "warning"},
      {"code", name(diagnostic.code)},
      {"message", without_quoted_secrets(diagnostic.message)},
      {"pointer", diagnostic.pointer},
  };
  const auto add_place = [](nlohmann::ordered_json& object, const Location& where) {
    object["file"] =
        where.source ? nlohmann::ordered_json(where.source->name) : nlohmann::ordered_json(nullptr);
    object["line"] = where.line;
    object["column"] = where.column;
  };
  add_place(json, diagnostic.where);
  json["help"] = without_quoted_secrets(diagnostic.help);
  json["notes"] = nlohmann::ordered_json::array();
  for (const Note& note : diagnostic.notes) {
    nlohmann::ordered_json object = {{"message", without_quoted_secrets(note.message)}};
    add_place(object, note.where);
    json["notes"].push_back(std::move(object));
  }
  return json;
}

ExitCode exit_code_of_stop(int signal, bool has_saved) {
  if (has_saved) return ExitCode::kStoppedAfterSave;
  return signal == SIGINT ? ExitCode::kInterrupted : ExitCode::kTerminated;
}

Diagnostic stopped_by(int signal, const std::string& doing) {
  const bool is_interrupt = signal == SIGINT;
  const std::string what = is_interrupt ? "interrupted" : "stopped by a signal";
  return {is_interrupt ? ErrorCode::kInterrupted : ErrorCode::kTerminated,
          {},
          "",
          doing.empty() ? what : what + " " + doing,
          ""};
}

bool says_stopped(ExitCode code) {
  return code == ExitCode::kStoppedAfterSave || code == ExitCode::kInterrupted ||
         code == ExitCode::kTerminated;
}

}  // namespace runner
