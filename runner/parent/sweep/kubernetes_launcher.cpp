#include "runner/parent/sweep/kubernetes_launcher.h"

#include <algorithm>

#include "runner/parent/sweep/follow_tasks.h"
#include "runner/parent/sweep/slurm_launcher.h"
#include "runner/shared/disk/new_file.h"

namespace runner {
namespace {

bool lies_in(const std::filesystem::path& path, const std::filesystem::path& folder) {
  const auto [end_of_folder, rest] =
      std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return end_of_folder == folder.end() || end_of_folder->empty();  // the path "a/" ends with an
                                                                   // empty name
}

/// Does not use a scheduler: prints the Jobs for the user to apply, and reads their results from
/// their pods' accounts.
class KubernetesQueue : public TaskQueue {
 public:
  KubernetesQueue(const nlohmann::ordered_json& settings, SweepJournal& journal,
                  const TrialSurroundings& surroundings)
      : settings_(settings), journal_(journal), surroundings_(surroundings) {}

  std::string name() const override { return "Kubernetes"; }
  bool has_printed() const { return has_printed_; }

  Result<std::string> submit(const Submission& submission) override {
    const auto& given = settings_.at("mount");
    const auto mount = given.is_null()
                           ? journal_.plan().folder
                           : std::filesystem::absolute(given.get<std::string>()).lexically_normal();
    const char* const mounted =
        given.is_null() ? "the folder in which the sweep was started" : "sweep.launcher.mount";
    for (const auto& [path, what] :
         {std::pair(journal_.folder(), "the sweep's folder"), std::pair(mount, mounted)})
      if (auto unfit = unfit_for_script(path, what, ScriptKind::kKubernetes))
        return *std::move(unfit);
    for (const auto& folder : {journal_.folder(), journal_.plan().folder}) {
      if (lies_in(folder, mount)) continue;
      return Diagnostic{
          ErrorCode::kClusterRefused,
          {},
          "",
          "'" + folder.string() + "' is not on the volume that pods mount at '" + mount.string() +
              "'",
          "set sweep.launcher.mount to a folder that contains both the sweep's folder "
          "and the folder in which the sweep was started"};
    }
    ClusterCommands commands;
    if (!needs_) needs_ = task_needs(settings_, journal_, surroundings_, commands);
    const auto folder = LaunchLayout(journal_.folder()).submission(submission.number);
    const std::string manifest = kubernetes_manifest(settings_, *needs_, submission, folder, mount);
    write_atomically(folder / "job.yaml", manifest);
    if (surroundings_.out)
      *surroundings_.out << (has_printed_ ? "---\n" : "") << manifest << std::flush;
    has_printed_ = surroundings_.out != nullptr;
    return submission.name;
  }
  Result<std::vector<QueuedTask>> look(std::span<const Submission>) override {
    return std::vector<QueuedTask>();
  }
  std::string fate(const Submission&, std::size_t) override { return ""; }
  Diagnostics cancel(std::span<const Submission>) override { return {}; }

 private:
  const nlohmann::ordered_json& settings_;
  SweepJournal& journal_;
  const TrialSurroundings& surroundings_;
  std::optional<TaskNeeds> needs_;
  bool has_printed_ = false;
};

class KubernetesLauncher : public Launcher {
 public:
  explicit KubernetesLauncher(nlohmann::ordered_json settings) : settings_(std::move(settings)) {}

  ExitCode run(SweepJournal& journal, const TrialOptions& options,
               const TrialSurroundings& surroundings) override {
    KubernetesQueue queue(settings_, journal, surroundings);
    const FollowOptions follow{
        .prefix = settings_.at("prefix").get<std::string>(), .waits = false, .trials = options};
    const ExitCode code = follow_tasks(journal, queue, follow, {}, surroundings);
    has_printed_ = queue.has_printed();
    return code;
  }
  bool has_results() const override { return !has_printed_; }

 private:
  const nlohmann::ordered_json settings_;
  bool has_printed_ = false;
};

}  // namespace

std::unique_ptr<Launcher> kubernetes_launcher(nlohmann::ordered_json settings) {
  return std::make_unique<KubernetesLauncher>(std::move(settings));
}

std::string kubernetes_manifest(const nlohmann::ordered_json& settings, const TaskNeeds& needs,
                                const Submission& submission, const std::filesystem::path& folder,
                                const std::filesystem::path& mount) {
  const auto text = [&](const char* key) { return yaml_word(settings.at(key).get<std::string>()); };
  const auto tasks = static_cast<std::int64_t>(submission.trials.size());
  const auto& at_once = settings.at("at_once");
  const std::int64_t parallel =
      at_once.is_null() ? tasks : std::min(tasks, at_once.get<std::int64_t>());
  std::string amounts = "cpu: " + std::to_string(needs.cores);
  if (needs.memory_bytes)
    amounts += ", memory: " + std::to_string((*needs.memory_bytes + (1 << 20) - 1) >> 20) + "Mi";
  if (needs.gpus > 0) amounts += ", nvidia.com/gpu: " + std::to_string(needs.gpus);
  const std::string command = "exec " + shell_word(settings.at("program").get<std::string>()) +
                              " sweep task " + shell_word(folder.string());
  std::string yaml =
      "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: " + yaml_word(submission.name) + "\n";
  if (!settings.at("namespace").is_null()) yaml += "  namespace: " + text("namespace") + "\n";
  yaml +=
      "spec:\n  completionMode: Indexed\n  completions: " + std::to_string(tasks) +
      "\n  parallelism: " + std::to_string(parallel) +
      "\n  backoffLimit: " + std::to_string(tasks * settings.at("restarts").get<std::int64_t>()) +
      "\n  template:\n    spec:\n      restartPolicy: Never\n      "
      "terminationGracePeriodSeconds: " +
      std::to_string(settings.at("save_seconds").get<std::int64_t>()) +
      "\n      containers:\n        - name: trial\n          image: " + text("image") +
      "\n          command: [\"/bin/sh\", \"-c\", " +
      yaml_word(unexpanded(command) + " \"$JOB_COMPLETION_INDEX\"") + "]" +
      "\n          resources:\n            requests: {" + amounts + "}\n            limits: {" +
      amounts + "}" + "\n          volumeMounts:\n            - {name: shared, mountPath: " +
      yaml_word(mount.string()) + "}" +
      "\n      volumes:\n        - name: shared\n          persistentVolumeClaim: {claimName: " +
      text("claim") + "}\n";
  return yaml;
}

}  // namespace runner
