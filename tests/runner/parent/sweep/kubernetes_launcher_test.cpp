#include "runner/parent/sweep/kubernetes_launcher.h"

#include <sstream>

#include <gmock/gmock.h>

#include "runner/parent/config/yaml_reader.h"
#include "runner/parent/sweep/sweep_journal.h"
#include "runner/parent/sweep/task_account.h"
#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

using testing::HasSubstr;

nlohmann::ordered_json pod_settings(const std::string& mount) {
  return {{"kind", "kubernetes"}, {"image", "registry/retort:1"},
          {"program", "retort"},  {"claim", "lab-data"},
          {"mount", mount},       {"namespace", nullptr},
          {"cores", 4},           {"gpus", 1},
          {"memory", "8GiB"},     {"at_once", 2},
          {"restarts", 6},        {"save_seconds", 120},
          {"prefix", "retort-0a"}};
}

constexpr char kManifest[] = R"(apiVersion: batch/v1
kind: Job
metadata:
  name: "retort-0a-1"
  namespace: "vision"
spec:
  completionMode: Indexed
  completions: 3
  parallelism: 2
  backoffLimit: 18
  template:
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 120
      containers:
        - name: trial
          image: "registry/retort:1"
          command: ["/bin/sh", "-c", "exec 'retort' sweep task '/lab/a \"b\"/launch/1' \"$JOB_COMPLETION_INDEX\""]
          resources:
            requests: {cpu: 4, memory: 8192Mi, nvidia.com/gpu: 1}
            limits: {cpu: 4, memory: 8192Mi, nvidia.com/gpu: 1}
          volumeMounts:
            - {name: shared, mountPath: "/lab"}
      volumes:
        - name: shared
          persistentVolumeClaim: {claimName: "lab-data"}
)";

TEST(KubernetesManifest, IsAnIndexedJob) {
  auto asked = pod_settings("/lab");
  asked["namespace"] = "vision";
  const std::string manifest = kubernetes_manifest(
      asked, {.cores = 4, .gpus = 1, .memory_bytes = std::int64_t{8} << 30},
      {.number = 1, .name = "retort-0a-1", .trials = {0, 1, 2}}, "/lab/a \"b\"/launch/1", "/lab");
  EXPECT_EQ(manifest, kManifest);
  Sources sources;
  const auto read = read_yaml(sources.add("job.yaml", manifest));
  ASSERT_TRUE(read) << read.errors().front().message;
  const Value* const command = at_key(*read, "spec.template.spec.containers.0.command.2");
  ASSERT_TRUE(command && command->text());
  EXPECT_EQ(*command->text(),
            "exec 'retort' sweep task '/lab/a \"b\"/launch/1' \"$JOB_COMPLETION_INDEX\"");
}

class KubernetesLauncherTest : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(SweepLayout(folder_.path()).recipes());
    journal_.emplace(SweepJournal::make(folder_.path(),
                                        {.recipe = "small",
                                         .overrides = {},
                                         .folder = folder_.path(),
                                         .trials = {{.number = 0, .hash = "aa", .settings = {}}}}));
  }
  ExitCode run(const std::string& mount) {
    err_.str("");
    out_.str("");
    const auto launcher = kubernetes_launcher(pod_settings(mount));
    const ExitCode code =
        launcher->run(*journal_, {}, {.program = "retort", .err = err_, .out = &out_});
    EXPECT_EQ(launcher->has_results(), out_.str().empty())
        << "a manifest is the only text on standard output";
    return code;
  }
  TemporaryFolder folder_;
  std::optional<SweepJournal> journal_;
  std::ostringstream err_, out_;
};

TEST_F(KubernetesLauncherTest, PrintsTheManifestOnce) {
  EXPECT_EQ(run(folder_.path()), ExitCode::kDone);
  EXPECT_THAT(out_.str(), testing::StartsWith("apiVersion: batch/v1\n"));
  EXPECT_EQ(out_.str(), folder_.read("launch/1/job.yaml"));
  EXPECT_EQ(run(folder_.path()), ExitCode::kStoppedAfterSave);
  EXPECT_EQ(out_.str(), "") << "its pods may be running";
  EXPECT_THAT(err_.str(), HasSubstr("1 trial has not ended yet\n"));
  folder_.write("0/summary.json", R"({"status": "finished"})");
  TaskAccount(folder_ / "launch/1/0.jsonl").add({.state = TrialState::kFinished});
  EXPECT_EQ(run(folder_.path()), ExitCode::kDone);
  EXPECT_EQ(journal_->trials()[0].state, TrialState::kFinished);
}

TEST_F(KubernetesLauncherTest, FolderOutsideThePodsVolumeIsRejected) {
  EXPECT_EQ(run("/elsewhere"), ExitCode::kDeviceUnavailable);
  EXPECT_EQ(err_.str(), "error[E0721]: '" + folder_.path().string() +
                            "' is not on the volume that pods mount at '/elsewhere'\n"
                            "  help: set sweep.launcher.mount to a folder that contains both the "
                            "sweep's folder and the folder in which the sweep was started\n");
  EXPECT_EQ(out_.str(), "");
}

}  // namespace
}  // namespace runner
