#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include <nlohmann/json.hpp>

#include "runner/parent/sweep/launcher.h"
#include "runner/parent/sweep/submission.h"
#include "runner/parent/sweep/task_needs.h"

namespace runner {

/// Slurm: the trials as arrays of tasks, by sbatch, squeue, sacct and scancel. `settings` are those of
/// schemas/sweep/launcher/slurm.schema.json, and "prefix" of the names of its jobs.
std::unique_ptr<Launcher> slurm_launcher(nlohmann::ordered_json settings);

/// The script of sbatch for a submission whose folder is `folder`: each of its tasks is retort, at `program`, so
/// signals reach it. USR1 comes before the time limit.
std::string slurm_script(const nlohmann::ordered_json& settings, const TaskNeeds& needs, const Submission& submission,
                         const std::filesystem::path& folder, const std::filesystem::path& program);

}  // namespace runner
