#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include <nlohmann/json.hpp>

#include "runner/parent/sweep/slurm_launcher.h"
#include "runner/parent/sweep/submission.h"
#include "runner/parent/sweep/task_needs.h"

namespace runner {

/// Returns a launcher for Kubernetes, which runs the trials as the pods of one indexed Job. It
/// prints the manifest but does not apply it; a later `sweep resume` reads what the pods have
/// reported into the journal and prints the manifest for the remaining trials. `settings` follow
/// schemas/sweep/launcher/kubernetes.schema.json, plus "prefix", the prefix of the Jobs' names.
std::unique_ptr<Launcher> kubernetes_launcher(nlohmann::ordered_json settings);

/// Returns the manifest as YAML. `mount` is the volume's folder, which is the same in the pods as
/// on this machine; it contains `folder`, the submission's folder.
std::string kubernetes_manifest(const nlohmann::ordered_json& settings, const TaskNeeds& needs,
                                const Submission& submission, const std::filesystem::path& folder,
                                const std::filesystem::path& mount);

}  // namespace runner
