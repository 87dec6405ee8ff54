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

namespace runner {

/// What the display writes to, and on.
struct DisplayOptions {
  bool is_terminal = false;
  bool color = false;  ///< only where NO_COLOR does not forbid it
  Verbosity verbosity = Verbosity::kNormal;
  std::function<int()> width = [] { return 80; };  ///< columns of the terminal
  std::function<std::chrono::steady_clock::time_point()> clock = std::chrono::steady_clock::now;
};

/// Options for standard error: whether it is a terminal (TERM=dumb is none), its width, NO_COLOR.
DisplayOptions standard_error_display(Verbosity verbosity);

/// Shows the running stage: one live line on a terminal, elsewhere a plain line every ten seconds.
/// Never hides the cursor, and leaves only whole lines once cleared.
class ProgressDisplay {
 public:
  /// No line shows `secrets`.
  ProgressDisplay(std::ostream& out, DisplayOptions options, SecretTexts secrets = {});
  ~ProgressDisplay();

  void progress(const std::string& node, const Progress& progress);
  /// One line of a stage, above the live one.
  void say(std::string_view node, std::string_view line);
  /// One line of a log that was asked for.
  void log(LogLevel level, std::string_view node, std::string_view line);
  /// One line that only kVerbose shows.
  void detail(std::string_view line);
  void node_finished();
  /// Takes the live line away, to write something else; the next tick brings it back.
  void clear();
  /// The terminal has another width.
  void resize();
  /// Draws what is due; after how long to call again, nullopt when nothing is to be shown.
  std::optional<std::chrono::milliseconds> tick();

 private:
  /// `text` as it is shown.
  std::string shown(std::string_view text) const;
  void write_line(std::string_view text);

  std::ostream& out_;
  const DisplayOptions options_;
  const SecretTexts secrets_;
  std::string node_;
  std::optional<Progress> latest_;  // of the running node
  bool is_stale_ = false;           // latest_ is not what is shown
  bool is_drawn_ = false;           // a live line stands on the terminal
  std::chrono::steady_clock::time_point last_draw_;
};

/// "train  epoch 2/10  step 40/200  812 images/s  loss 0.6931  ETA 0:01:23  tensors 512 MiB of 2.0
/// GiB": what is known.
std::string progress_line(const std::string& node, const Progress& progress);

}  // namespace runner
