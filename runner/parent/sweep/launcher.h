#pragma once

#include <filesystem>
#include <memory>

#include <nlohmann/json_fwd.hpp>

#include "runner/parent/sweep/run_trials.h"

namespace runner {

/// Where the trials of a sweep run.
class Launcher {
 public:
  virtual ~Launcher() = default;
  /// Brings about what the journal says is still to be done, as run_trials() does on this machine, whose contract and
  /// exit codes are those of all. Throws WriteError.
  virtual ExitCode run(SweepJournal& journal, const TrialOptions& options, const TrialSurroundings& surroundings) = 0;
  /// Are there results to show now that run() has ended? Else it has printed what somebody is to apply.
  virtual bool has_results() const { return true; }
};

/// Keeps what `sweep.launcher` of a recipe asks for, validated, in the folder of a sweep that is about to begin; null
/// asks for this machine. Throws WriteError.
void keep_launcher(const nlohmann::ordered_json& settings, const std::filesystem::path& sweep);
/// The launcher that the sweep in that folder was begun with, or this machine. What it was asked for may have been
/// edited since: mistakes are those of the schema, or kDamagedRecord.
Result<std::unique_ptr<Launcher>> launcher_of(const std::filesystem::path& sweep);

}  // namespace runner
