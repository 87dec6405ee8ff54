#include "runner/parent/run/progress_display.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ostream>

#include "runner/shared/text/printable.h"
#include "runner/shared/text/units.h"

namespace runner {
namespace {

using namespace std::chrono_literals;

constexpr auto kLiveInterval = 100ms;
constexpr auto kPlainInterval = 10s;
constexpr std::string_view kEraseLine = "\r\x1b[K";

template <typename... Arguments>
std::string format(const char* pattern, Arguments... arguments) {
  std::array<char, 64> text;
  const int size = std::snprintf(text.data(), text.size(), pattern, arguments...);
  return {text.data(), std::min<std::size_t>(size, text.size() - 1)};
}

std::string counter(const char* what, std::int64_t at, std::int64_t of) {
  std::string text = std::string("  ") + what + " " + std::to_string(at);
  return of > 0 ? text + "/" + std::to_string(of) : text;
}

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value && *value;
}

int terminal_width() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  const char* columns = std::getenv("COLUMNS");
  const int width = columns ? std::atoi(columns) : 0;
  return width > 0 ? width : 80;
}

}  // namespace

std::string progress_line(const std::string& node, const Progress& p) {
  std::string line = node;
  if (!p.phase.empty() && p.phase != node) line += "  " + p.phase;
  if (p.epoch > 0) line += counter("epoch", p.epoch, p.epochs);
  if (p.step > 0) line += counter("step", p.step, p.steps);
  if (p.bytes > 0) line += "  " + bytes_text(p.bytes);
  if (p.bytes > 0 && p.bytes_in_all > 0) line += " of " + bytes_text(p.bytes_in_all);
  if (p.bytes_per_second >= 1)
    line += "  " + bytes_text(static_cast<std::int64_t>(p.bytes_per_second)) + "/s";
  if (p.samples_per_second > 0) {
    line += format(p.samples_per_second < 9.95 ? "  %.1f images/s" : "  %.0f images/s",
                   p.samples_per_second);
  }
  if (p.loss != 0) line += format("  loss %.4g", p.loss);
  if (p.seconds_left > 0) line += "  ETA " + duration_text(p.seconds_left);
  if (p.memory_bytes > 0) line += "  tensors " + bytes_text(p.memory_bytes);
  if (p.memory_bytes > 0 && p.budget_bytes > 0) line += " of " + bytes_text(p.budget_bytes);
  return printable(line);
}

DisplayOptions standard_error_display(Verbosity verbosity) {
  const char* terminal = std::getenv("TERM");
  const bool is_terminal =
      isatty(STDERR_FILENO) && terminal && std::string_view(terminal) != "dumb";
  DisplayOptions options;
  options.is_terminal = is_terminal;
  options.color = is_terminal && !is_set("NO_COLOR");
  options.verbosity = verbosity;
  options.width = terminal_width;
  return options;
}

ProgressDisplay::ProgressDisplay(std::ostream& out, DisplayOptions options, SecretTexts secrets)
    : out_(out),
      options_(std::move(options)),
      secrets_(std::move(secrets)),
      last_draw_(options_.clock()) {}

ProgressDisplay::~ProgressDisplay() { clear(); }

void ProgressDisplay::progress(const std::string& node, const Progress& progress) {
  node_ = node;
  latest_ = progress;
  is_stale_ = true;
}

void ProgressDisplay::say(std::string_view node, std::string_view line) {
  if (options_.verbosity == Verbosity::kQuiet) return;
  std::string text = shown(line);
  if (!node.empty()) {
    const std::string name = printable(node);
    text = (options_.color ? "\x1b[1m" + name + "\x1b[0m" : name) + ": " + text;
  }
  write_line(text);
}

void ProgressDisplay::log(LogLevel level, std::string_view node, std::string_view line) {
  write_line(std::string(name(level)) + ": " + (node.empty() ? "" : printable(node) + ": ") +
             shown(line));
}

void ProgressDisplay::detail(std::string_view line) {
  if (options_.verbosity == Verbosity::kVerbose) write_line(shown(line));
}

std::string ProgressDisplay::shown(std::string_view text) const {
  return printable(secrets_.hidden_in(std::string(text)));
}

void ProgressDisplay::write_line(std::string_view text) {
  clear();
  out_ << text << '\n' << std::flush;
}

void ProgressDisplay::node_finished() {
  clear();
  latest_.reset();
  is_stale_ = false;
}

void ProgressDisplay::clear() {
  if (!is_drawn_) return;
  out_ << kEraseLine << std::flush;
  is_drawn_ = false;
  is_stale_ = latest_.has_value();
}

void ProgressDisplay::resize() { is_stale_ = latest_.has_value(); }

std::optional<std::chrono::milliseconds> ProgressDisplay::tick() {
  if (options_.verbosity == Verbosity::kQuiet || !is_stale_) return std::nullopt;
  const auto now = options_.clock();
  const std::chrono::steady_clock::duration interval =
      options_.is_terminal ? std::chrono::steady_clock::duration(kLiveInterval) : kPlainInterval;
  if (now - last_draw_ < interval)
    return std::chrono::ceil<std::chrono::milliseconds>(last_draw_ + interval - now);
  const std::string line = progress_line(node_, *latest_);
  if (options_.is_terminal) {
    // One column is left free, because a full line makes some terminals wrap.
    const auto width = static_cast<std::size_t>(std::max(options_.width() - 1, 1));
    out_ << kEraseLine << cut_to_width(line, width) << std::flush;
    is_drawn_ = true;
  } else {
    out_ << line << '\n' << std::flush;
  }
  is_stale_ = false;
  last_draw_ = now;
  return std::nullopt;
}

}  // namespace runner
