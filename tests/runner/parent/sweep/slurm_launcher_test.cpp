#include "runner/parent/sweep/slurm_launcher.h"

#include <sstream>

#include <gmock/gmock.h>

#include "runner/parent/sweep/sweep_journal.h"
#include "tests/support/fake_slurm.h"

namespace runner {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

nlohmann::ordered_json settings(
    const nlohmann::ordered_json& changes = nlohmann::ordered_json::object()) {
  nlohmann::ordered_json all = {{"kind", "slurm"},
                                {"partition", nullptr},
                                {"account", nullptr},
                                {"time_minutes", 60},
                                {"cores", 2},
                                {"gpus", 0},
                                {"memory", "1GiB"},
                                {"at_once", nullptr},
                                {"warning_seconds", 120},
                                {"resubmissions", 3},
                                {"look_seconds", 0.01},
                                {"answer_seconds", 5},
                                {"patience_minutes", 0},
                                {"options", nlohmann::ordered_json::array()},
                                {"setup", nlohmann::ordered_json::array()},
                                {"prefix", "retort-0a"}};
  all.update(changes);
  return all;
}

TEST(SlurmScript, RequestsTheResourcesOfATask) {
  EXPECT_EQ(
      slurm_script(settings({{"partition", "gpu"},
                             {"account", "vision"},
                             {"at_once", 4},
                             {"options", {"--constraint=a100"}},
                             {"setup", {"module load cuda"}}}),
                   {.cores = 8, .gpus = 1, .memory_bytes = (std::int64_t{3} << 20) + 1},
                   {.number = 1, .name = "retort-0a-1", .trials = {0, 1, 2}},
                   "/a folder/50%/launch/1", "/it's/retort"),
      "#!/bin/bash\n"
      "#SBATCH --job-name=retort-0a-1\n"
      "#SBATCH --array=0-2%4\n"
      "#SBATCH --output=\"/a folder/50%%/launch/1/%a.log\"\n"
      "#SBATCH --open-mode=append\n"
      "#SBATCH --requeue\n"
      "#SBATCH --signal=B:USR1@120\n"
      "#SBATCH --time=60\n"
      "#SBATCH --partition=gpu\n"
      "#SBATCH --account=vision\n"
      "#SBATCH --ntasks=1\n"
      "#SBATCH --cpus-per-task=8\n"
      "#SBATCH --gpus=1\n"
      "#SBATCH --mem=4M\n"
      "#SBATCH --constraint=a100\n"
      "module load cuda\n"
      "export RETORT_REQUEUE=\"scontrol requeue ${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}\"\n"
      "export RETORT_TASK=\"${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}\"\n"
      "exec '/it'\\''s/retort' sweep task '/a folder/50%/launch/1' \"$SLURM_ARRAY_TASK_ID\"\n");
}

TEST(SlurmScript, SrunStartsTheRanksOnSeveralMachines) {
  const std::string script = slurm_script(
      settings(), {.cores = 8, .gpus = 4, .memory_bytes = 1 << 30, .nodes = 2, .ranks_on_node = 4},
      {.number = 1, .name = "a", .trials = {0}}, "/s", "/retort");
  EXPECT_THAT(script, AllOf(HasSubstr("#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=4\n"
                                      "#SBATCH --cpus-per-task=2\n#SBATCH --gpus-per-node=4\n"
                                      "#SBATCH --mem=1024M\n"),
                            HasSubstr("export RETORT_RANKS=\"srun --nodes=2 --ntasks-per-node=4 "
                                      "--cpus-per-task=2 --kill-on-bad-exit=1\"\n")));
}

TEST(SlurmScript, LeavesUnknownNeedsToTheCluster) {
  const std::string script =
      slurm_script(settings(), {}, {.number = 1, .name = "a", .trials = {0}}, "/s", "/retort");
  EXPECT_THAT(script, AllOf(Not(HasSubstr("--mem")), Not(HasSubstr("--gpus")),
                            Not(HasSubstr("--partition")), HasSubstr("--array=0-0\n")));
}

/// A sweep of two trials, with fake Slurm commands and a fake `retort`.
class SlurmLauncherTest : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(SweepLayout(sweep()).recipes());
    folder_.write(
        "retort",
        "#!/bin/sh\n"  // sweep task FOLDER INDEX
        "echo '{\"state\":\"running\",\"place\":\"on a\"}' >>\"$3/$4.jsonl\"\n"
        "[ -e " +
            (folder_ / "vanishes").string() +
            " ] && exit 1\n"
            "mkdir -p \"$3/../../$4\"; echo '{\"status\": \"finished\"}' "
            ">\"$3/../../$4/summary.json\"\n"
            "echo '{\"state\":\"finished\",\"exit\":0,\"seconds\":1}' >>\"$3/$4.jsonl\"\n");
    std::filesystem::permissions(folder_ / "retort", std::filesystem::perms::owner_all);
    SweepPlan plan{.recipe = "small", .overrides = {}, .folder = folder_.path(), .trials = {}};
    for (std::uint64_t number = 0; number < 2; ++number)
      plan.trials.push_back({.number = number, .hash = "aa", .settings = {}});
    journal_.emplace(SweepJournal::make(sweep(), plan));
  }
  std::filesystem::path sweep() const { return folder_ / "sweep"; }
  ExitCode run(const nlohmann::ordered_json& changes = nlohmann::ordered_json::object()) {
    err_.str("");
    return slurm_launcher(settings(changes))
        ->run(*journal_, {}, {.program = folder_ / "retort", .err = err_});
  }

  TemporaryFolder folder_;
  FakeSlurm slurm_;
  std::optional<SweepJournal> journal_;
  std::ostringstream err_;
};

TEST_F(SlurmLauncherTest, TrialsFormOneArray) {
  EXPECT_EQ(run(), ExitCode::kDone);
  EXPECT_EQ(slurm_.calls(), "sbatch --parsable " + (sweep() / "launch/1/script.sh").string() +
                                "\n"
                                "squeue -h -r -t all -n retort-0a-1 -o %j|%K|%T\n");
  EXPECT_EQ(journal_->trials()[1].state, TrialState::kFinished);
  EXPECT_THAT(err_.str(), HasSubstr("Slurm job 7: 2 trials\n"));
}

TEST_F(SlurmLauncherTest, SilentlyFailedTasksAreResubmitted) {
  folder_.write("vanishes", "");
  EXPECT_EQ(run({{"resubmissions", 1}}), ExitCode::kSomeTrialsFailed);
  EXPECT_THAT(err_.str(),
              AllOf(HasSubstr("Slurm job 8: 2 trials\n"),
                    HasSubstr("trial 0: its task is gone (FAILED); it will be resubmitted"),
                    testing::EndsWith("trial 1: its task is gone (FAILED)\n")));
  std::filesystem::remove(folder_ / "vanishes");
  EXPECT_EQ(run(), ExitCode::kDone);
}

TEST_F(SlurmLauncherTest, TasksMissingFromTheQueueAreLookedUpWithSacct) {
  folder_.write("vanishes", "");
  slurm_.does("squeue", "exit 0");
  slurm_.does("sacct", "echo OUT_OF_MEMORY");
  EXPECT_EQ(run({{"resubmissions", 0}}), ExitCode::kSomeTrialsFailed);
  EXPECT_THAT(err_.str(), HasSubstr("trial 0: its task is gone (OUT_OF_MEMORY)\n"));
  EXPECT_THAT(slurm_.calls(), HasSubstr("sacct -n -P -X -j 7_0 -o State\n"));
}

TEST_F(SlurmLauncherTest, UnscriptablePathIsRejectedBeforeCallingSlurm) {
  err_.str("");
  EXPECT_EQ(
      slurm_launcher(settings())->run(*journal_, {}, {.program = folder_ / "a\nb", .err = err_}),
      ExitCode::kDeviceUnavailable);
  EXPECT_EQ(err_.str(), "error[E0721]: the path of this program, '" + (folder_ / "a b").string() +
                            "', has a control character, such as a newline, which a script for the "
                            "cluster cannot contain\n"
                            "  help: give it another name, and start the sweep there\n");
  EXPECT_EQ(slurm_.calls(), "");
}

TEST_F(SlurmLauncherTest, RejectedArrayIsReportedWithSlurmsMessage) {
  slurm_.does("sbatch", "echo 'sbatch: error: invalid partition specified: gpu' >&2; exit 1");
  EXPECT_EQ(run(), ExitCode::kDeviceUnavailable);
  EXPECT_EQ(
      err_.str(),
      "error[E0721]: sbatch rejected the trials: sbatch: error: invalid partition specified: gpu\n"
      "  help: edit sweep.launcher in '" +
          (sweep() / "launch/launcher.json").string() +
          "' (`gpus: 0` for a cluster without GPUs), and continue with `retort sweep resume " +
          sweep().string() + "`\n");
}

TEST_F(SlurmLauncherTest, QueueIsCheckedAfterSbatchTimesOut) {
  slurm_.does("sbatch", "sleep 60");
  EXPECT_EQ(run({{"answer_seconds", 0.2}}), ExitCode::kDeviceUnavailable);
  EXPECT_THAT(err_.str(), HasSubstr("error[E0720]: sbatch has not responded for 0 s\n"));
  slurm_.does("sbatch", "");
  EXPECT_EQ(run(), ExitCode::kDone) << err_.str();
  EXPECT_THAT(slurm_.calls(), HasSubstr("squeue -h -r -t all -n retort-0a-1 -o %j|%K|%T\n"
                                        "squeue -h -r -t all -n retort-0a-1 -o %j|%K|%T\n"
                                        "squeue -h -r -t all -n retort-0a-1 -o %j|%K|%T\n"
                                        "sbatch"))
      << "checks whether the queue contains the array";
}

TEST_F(SlurmLauncherTest, UnreachableControllerIsNotARefusal) {
  slurm_.does(
      "sbatch",
      "echo 'sbatch: error: Unable to contact slurm controller (connect failure)' >&2; exit 1");
  EXPECT_EQ(run(), ExitCode::kDeviceUnavailable);
  EXPECT_THAT(
      err_.str(),
      HasSubstr("error[E0720]: sbatch exited with code 1: sbatch: error: Unable to contact slurm"));
}

TEST_F(SlurmLauncherTest, SilentQueueEndsAnImpatientFollower) {
  folder_.write("vanishes", "");
  slurm_.does("squeue", "echo 'slurm_load_jobs error: Socket timed out'; exit 1");
  EXPECT_EQ(run(), ExitCode::kDeviceUnavailable);
  EXPECT_THAT(err_.str(),
              HasSubstr("error[E0720]: squeue exited with code 1: slurm_load_jobs error: Socket"));
}

}  // namespace
}  // namespace runner
