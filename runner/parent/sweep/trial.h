#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace runner {

/// How far a run of a sweep is.
enum class TrialState { kWaiting, kRunning, kFinished, kFailed, kInterrupted, kStopped };

/// "waiting", "running", "finished", "failed", "interrupted", and "stopped" early because others were better.
std::string_view name(TrialState state);
/// nullopt: no state is called that.
std::optional<TrialState> trial_state_named(std::string_view name);

/// One run of a sweep, and how it went so far.
struct Trial {
  std::uint64_t number = 0;           ///< from 0, in the order of the whole sweep; the name of its folder
  std::string hash;                   ///< of its resolved recipe
  std::vector<std::string> settings;  ///< what it sets, "train.epochs=5", without secrets
  TrialState state = TrialState::kWaiting;
  int attempts = 0;          ///< times that it was started
  int exit = 0;              ///< of its last attempt
  double seconds = 0;        ///< of all attempts; of one at work nothing yet
  bool is_open = false;      ///< nothing is known of how its last attempt ended
  double ran_before = 0;     ///< seconds of work that its run's record told of when that began
  double lost = 0;           ///< of `seconds`, those of an open attempt that nobody follows any more
  std::string reason;        ///< why it failed, a line; may be empty
  bool is_doubtful = false;  ///< it has ended, but the machine went down before its files were known to be on the disk
  std::vector<double> rungs = {};         ///< values at which it was compared with others (asha.h)
  std::optional<std::uint64_t> ask = {};  ///< of a sampler's: which ask it answered (ask_tell.h)
};

/// What trial `number` sets and not all others do, for a message: " (seed=1 train.epochs=5)"; empty where that is
/// nothing.
std::string own_settings(const std::vector<Trial>& trials, std::uint64_t number);

}  // namespace runner
