#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include <nlohmann/json.hpp>

#include "runner/parent/sweep/slurm_launcher.h"
#include "runner/parent/sweep/submission.h"
#include "runner/parent/sweep/task_needs.h"

namespace runner {

/// Kubernetes: the trials are the pods of one indexed Job. Its manifest is printed and not applied;
/// a later `sweep resume` reads what the pods have reported into the journal, and prints the
/// manifest of the rest. `settings` are those of schemas/sweep/launcher/kubernetes.schema.json, and
/// "prefix", the prefix of the names of its Jobs.
std::unique_ptr<Launcher> kubernetes_launcher(nlohmann::ordered_json settings);

/// The manifest, in YAML. `mount` is the folder of the volume, in the pods as here; it contains
/// `folder`, that of the submission.
std::string kubernetes_manifest(const nlohmann::ordered_json& settings, const TaskNeeds& needs,
                                const Submission& submission, const std::filesystem::path& folder,
                                const std::filesystem::path& mount);

}  // namespace runner
