#pragma once

#include <chrono>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>

#include "runner/parent/config/secret.h"
#include "runner/shared/error/log_level.h"
#include "runner/shared/stage/run_context.h"
#include "runner/shared/text/terminal.h"

namespace runner {

/// Where and how the display writes.
struct DisplayOptions {
  bool is_terminal = false;
  bool color = false;  ///< never set if NO_COLOR is set
  Verbosity verbosity = Verbosity::kNormal;
  std::function<TerminalSize()> size = [] { return TerminalSize{}; };  ///< returns the terminal's
                                                                       ///< current size
  std::function<std::chrono::steady_clock::time_point()> clock = std::chrono::steady_clock::now;
};

/// Returns the options for standard error: whether it is a terminal (not with TERM=dumb), its size,
/// and color unless NO_COLOR is set.
DisplayOptions standard_error_display(Verbosity verbosity);

/// Shows the running stage: on a terminal as a single live line, elsewhere as a plain line every
/// ten seconds. Never hides the cursor; clear() leaves only complete lines.
class ProgressDisplay {
 public:
  /// Hides `secrets` in every line.
  ProgressDisplay(std::ostream& out, DisplayOptions options, SecretTexts secrets = {});
  ~ProgressDisplay();

  void progress(const std::string& node, const Progress& progress);
  /// Prints a line about a stage above the live line.
  void say(std::string_view node, std::string_view line);
  /// Prints a line of a requested log.
  void log(LogLevel level, std::string_view node, std::string_view line);
  /// Prints a line only if the verbosity is kVerbose.
  void detail(std::string_view line);
  void node_finished();
  /// Erases the live line so that other output can be written; the next tick() draws it again.
  void clear();
  /// Must be called after the terminal's size has changed.
  void resize();
  /// Draws the progress if it is due. Returns the time until the next call; nullopt if there is
  /// nothing to show.
  std::optional<std::chrono::milliseconds> tick();

 private:
  /// Returns `text` with secrets hidden and control characters escaped.
  std::string shown(std::string_view text) const;
  void write_line(std::string_view text);

  std::ostream& out_;
  const DisplayOptions options_;
  const SecretTexts secrets_;
  std::string node_;
  std::optional<Progress> latest_;  // progress of the running node
  bool is_stale_ = false;           // latest_ is not shown yet
  bool is_drawn_ = false;           // the terminal shows a live line
  std::chrono::steady_clock::time_point last_draw_;
};

/// Returns the known parts of "train  epoch 2/10  step 40/200  812 images/s  loss 0.6931  ETA
/// 0:01:23  tensors 512 MiB of 2.0 GiB".
std::string progress_line(const std::string& node, const Progress& progress);

}  // namespace runner
