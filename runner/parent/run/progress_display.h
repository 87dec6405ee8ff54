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

/// Where and how the display writes.
struct DisplayOptions {
  bool is_terminal = false;
  bool color = false;  ///< only if NO_COLOR allows it
  Verbosity verbosity = Verbosity::kNormal;
  std::function<int()> width = [] { return 80; };  ///< columns of the terminal
  std::function<std::chrono::steady_clock::time_point()> clock = std::chrono::steady_clock::now;
};

/// Options for standard error: whether it is a terminal (not with TERM=dumb), its width, NO_COLOR.
DisplayOptions standard_error_display(Verbosity verbosity);

/// Shows the running stage: one live line on a terminal, elsewhere a plain line every ten seconds.
/// Never hides the cursor, and leaves only whole lines once cleared.
class ProgressDisplay {
 public:
  /// No line shows `secrets`.
  ProgressDisplay(std::ostream& out, DisplayOptions options, SecretTexts secrets = {});
  ~ProgressDisplay();

  void progress(const std::string& node, const Progress& progress);
  /// Prints one line of a stage above the live line.
  void say(std::string_view node, std::string_view line);
  /// Prints one line of a requested log.
  void log(LogLevel level, std::string_view node, std::string_view line);
  /// Prints one line that only kVerbose shows.
  void detail(std::string_view line);
  void node_finished();
  /// Erases the live line so that something else can be written; the next tick brings it back.
  void clear();
  /// Call when the terminal's width has changed.
  void resize();
  /// Draws what is due. Returns when to call again; nullopt if there is nothing to show.
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
  bool is_stale_ = false;           // latest_ is not shown yet
  bool is_drawn_ = false;           // the terminal shows a live line
  std::chrono::steady_clock::time_point last_draw_;
};

/// "train  epoch 2/10  step 40/200  812 images/s  loss 0.6931  ETA 0:01:23  tensors 512 MiB of 2.0
/// GiB": the parts that are known.
std::string progress_line(const std::string& node, const Progress& progress);

}  // namespace runner
